/** What two engines' caches must have in common where some of a block's bytes would travel alone. */
import { expect, test } from 'vitest'
import { compareFacts, type PeerFacts } from '../src/protocol/index.ts'

const capabilities = { tensorParallel: 'mapped', supportsDifferentLayouts: true } as const

function factsWith(change: Partial<PeerFacts>): PeerFacts {
  const facts: PeerFacts = {
    ...{ connector: 'push', transferMode: 'push', model: 'm', dtype: 'bfloat16', layout: 'LBHNC' },
    ...{ layerCount: 2, kvHeadCount: 4, headSize: 8, blockTokens: 16, tpSize: 1, ppSize: 1 },
    ...{ regions: [], ...change },
  }
  // Two layers of keys in one region.
  const blockSizeBytes = 2 * facts.kvHeadCount * facts.headSize * facts.blockTokens * 2
  return { ...facts, regions: [{ name: 'kv', blockSizeBytes, blockStrideBytes: blockSizeBytes }] }
}

const differences = [
  ['blockTokens', { blockTokens: 32 }],
  ['tpSize', { tpSize: 2, kvHeadCount: 2 }],
] as const

test.each(differences)(
  'blocks of several layers are not cut: another %s is refused',
  (field, of) => {
    const layout = 'BLHNC'
    const local = factsWith({ layout })
    const remote = factsWith({ layout, ...of })
    expect(compareFacts(local, local, capabilities)).toBeNull()
    for (const [ours, theirs] of [
      [local, remote],
      [remote, local],
    ] as const) {
      const [here, there] = [String(ours[field]), String(theirs[field])]
      expect(compareFacts(ours, theirs, capabilities)).toEqual({
        field,
        local: here,
        remote: there,
      })
    }
  },
)

test.each(differences)('blocks of one layer are cut: another %s is served', (_, of) => {
  for (const layout of ['LBHNC', 'LBNHC', 'HND', 'NHD']) {
    const remote = factsWith({ layout, ...of })
    expect(compareFacts(factsWith({ layout }), remote, capabilities)).toBeNull()
  }
})

test('tokens and heads of blocks of several layers do not change places', () => {
  const [local, remote] = [factsWith({ layout: 'BLHNC' }), factsWith({ layout: 'BLNHC' })]
  const expected = { field: 'layout', local: 'BLHNC', remote: 'BLNHC' }
  expect(compareFacts(local, remote, capabilities)).toEqual(expected)
})
