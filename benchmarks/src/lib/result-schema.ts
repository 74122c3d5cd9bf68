/**
 * Result files are checked against their published JSON Schema before they are written, so that other
 * people's scripts can rely on it. The schemas lie in `schema/` of this package.
 */
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'

export type SchemaName = 'compare' | 'gpus' | 'load' | 'micro' | 'reuse' | 'sweep' | 'trace'

const require = createRequire(import.meta.url)

export function readSchema(name: SchemaName): Record<string, unknown> {
  const root = dirname(require.resolve('@kvferry/benchmarks/package.json'))
  const path = join(root, 'schema', `${name}.schema.json`)
  return JSON.parse(readFileSync(path, 'utf8')) as Record<string, unknown>
}

const sharing: readonly SchemaName[] = ['gpus', 'load', 'reuse', 'sweep', 'trace']

/** Compiling takes longer than checking, and a sweep checks each of its files. */
const compiled = new Map<SchemaName, ValidateFunction>()

function validatorOf(name: SchemaName): ValidateFunction {
  const known = compiled.get(name)
  if (known) return known
  const ajv = new Ajv2020({ allErrors: true, strict: true, allowUnionTypes: true })
  // They hold entries of `compare`'s runs, or its environment.
  if (sharing.includes(name)) ajv.addSchema(readSchema('compare'))
  const validate = ajv.compile(readSchema(name))
  compiled.set(name, validate)
  return validate
}

/** @throws Error naming the first places where `result` breaks its schema. */
export function assertMatchesSchema(name: SchemaName, result: unknown): void {
  const validate = validatorOf(name)
  if (validate(result)) return
  const places = (validate.errors ?? [])
    .slice(0, 5)
    .map(({ instancePath, message }) => `${instancePath || '/'} ${message ?? ''}`)
  throw new Error(`the result breaks ${name}.schema.json: ${places.join('; ')}`)
}
