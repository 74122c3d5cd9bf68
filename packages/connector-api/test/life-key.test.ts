import { asEngineId, asIncarnation } from '@kvferry/connector-api'
import { lifeKey } from '@kvferry/connector-api/protocol'
import { expect, test } from 'vitest'

const keyOf = (engine: string, life: string, ...more: (string | number)[]): string =>
  lifeKey({ engineId: asEngineId(engine), incarnation: asIncarnation(life) }, ...more)

test('what belongs together has one key, and whatever differs another', () => {
  expect(keyOf('p0', 'a', 'read', 1)).toBe(keyOf('p0', 'a', 'read', 1))
  const keys = [
    keyOf('p0', 'a'),
    keyOf('p0', 'b'),
    keyOf('p1', 'a'),
    keyOf('p0', 'a', 1),
    keyOf('p0', 'a', '1'),
    keyOf('p0","a', ''),
    keyOf('p0', 'a', ''),
    keyOf('p0', 'a","'),
  ]
  expect(new Set(keys).size).toBe(keys.length)
})
