import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { limits } from '@kvferry/connector-api'
import { loadBinding } from '../src/load-binding.ts'

const header = readFileSync(new URL('../native/limits.h', import.meta.url), 'utf8')
const mirror = header.slice(header.indexOf('mirror of limits.ts'), header.indexOf('native only'))

test('the bounds of the native half are those of the contract', () => {
  const native = loadBinding().limits
  const names = [...mirror.matchAll(/k([A-Z]\w+) =/g)].map(
    ([, name]) => name!.charAt(0).toLowerCase() + name!.slice(1),
  )
  expect(Object.keys(native).sort()).toEqual(names.sort())
  expect(names.length).toBeGreaterThan(8)
  expect(native).toEqual(
    Object.fromEntries(names.map((name) => [name, limits[name as keyof typeof limits]])),
  )
})
