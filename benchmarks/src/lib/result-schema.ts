/**
 * Result files are checked against their published JSON Schema before they are written, so that other
 * people's scripts can rely on it. The schemas lie in `schema/` of this package.
 */
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { Ajv2020 } from 'ajv/dist/2020.js'

export type SchemaName = 'compare' | 'micro'

const require = createRequire(import.meta.url)

export function readSchema(name: SchemaName): Record<string, unknown> {
  const root = dirname(require.resolve('@kvferry/benchmarks/package.json'))
  const path = join(root, 'schema', `${name}.schema.json`)
  return JSON.parse(readFileSync(path, 'utf8')) as Record<string, unknown>
}

/** @throws Error naming the first places where `result` breaks its schema: a bug of the harness. */
export function assertMatchesSchema(name: SchemaName, result: unknown): void {
  const ajv = new Ajv2020({ allErrors: true, strict: true, allowUnionTypes: true })
  if (ajv.validate(readSchema(name), result)) return
  const places = (ajv.errors ?? [])
    .slice(0, 5)
    .map(({ instancePath, message }) => `${instancePath || '/'} ${message ?? ''}`)
  throw new Error(`the result breaks ${name}.schema.json: ${places.join('; ')}`)
}
