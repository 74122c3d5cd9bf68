/** Who can serve with whom is asked by every request, and worked out when an engine says something new. */
import { expect, test } from 'vitest'
import { Engine } from '../src/engine.ts'
import type { EngineClient } from '../src/engine-client.ts'
import { parseEnginePeer } from '../src/engine-peer.ts'
import { Fleet } from '../src/fleet.ts'
import { createRoundRobin } from '../src/policy.ts'

const sayOf = (engineId: string, model = 'm') =>
  parseEnginePeer({
    ...{ connector: 'pull', transferMode: 'pull', engineId, incarnation: 'i', model },
    ...{ role: 'both', blockTokens: 16, wireVersion: 1 },
  })!

function createEngine(leg: 'prefill' | 'decode', index: number, engineId: string): Engine {
  const client = { url: `http://${engineId}` } as EngineClient
  const engine = new Engine({ leg, index, client, declared: {} })
  engine.setState({ kind: 'up', peer: sayOf(engineId) })
  return engine
}

function createFleet() {
  const p0 = createEngine('prefill', 0, 'p0')
  const [d0, d1] = [createEngine('decode', 0, 'd0'), createEngine('decode', 1, 'd1')]
  const asked: string[] = []
  const obstacle = ({ engineId }: { readonly engineId: string | null }): null => {
    asked.push(engineId ?? '?')
    return null
  }
  const options = { obstacle, createPolicy: createRoundRobin }
  return { p0, d0, d1, asked, fleet: new Fleet({ prefills: [p0], decodes: [d0, d1], ...options }) }
}

test('requests between two polls ask nothing anew', () => {
  const { fleet, p0, d0, d1, asked } = createFleet()
  for (let request = 0; request < 10; request++) {
    expect(fleet.choosePrefill(new Set())).toBe(p0)
    expect(fleet.chooseDecode(p0.peer!, new Set())).toBe(request % 2 === 0 ? d0 : d1)
  }
  expect(asked).toEqual(['p0'])
})

test('what a poll finds counts at once: another model, a name that is taken, an engine that is gone', () => {
  const { fleet, p0, d0, d1 } = createFleet()
  fleet.chooseDecode(p0.peer!, new Set())
  d1.setState({ kind: 'up', peer: sayOf('d1', 'other') })
  for (let turn = 0; turn < 3; turn++) expect(fleet.chooseDecode(p0.peer!, new Set())).toBe(d0)
  d1.setState({ kind: 'up', peer: sayOf('p0') })
  expect(() => fleet.choosePrefill(new Set())).toThrow('engine id "p0" is used by')
  d1.setState({ kind: 'down', reason: 'gone' })
  expect(fleet.choosePrefill(new Set())).toBe(p0)
  d0.suspect('no connection')
  expect(() => fleet.chooseDecode(p0.peer!, new Set())).toThrow('decode ')
})
