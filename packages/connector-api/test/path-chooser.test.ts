/** Which path the posts of a worker get, peer by peer. */
import { expect, test } from 'vitest'
import type {
  AgentPath,
  BlockTableHandle,
  PeerHandle,
  TransferAgent,
  TransferCompletion,
  TransferHandle,
  TransferPath,
  TransferPost,
} from '../src/index.ts'
import { ipcFor, resolveIpc, slabsFor } from '../src/index.ts'
import { PathChooser, pieceCountOf, protocolLimits } from '../src/protocol/index.ts'

const [table, other] = [1, 2] as unknown as BlockTableHandle[]
const [near, far, gone, here] = [1, 2, 3, 4] as unknown as PeerHandle[]
const blocks = (...ids: number[]) => ({ table: table!, blockIds: Uint32Array.from(ids) })

const agent = {
  paths: ['descriptors', 'slabs', 'ipc'],
  pathsTo: (peer: PeerHandle) => {
    if (peer === gone) throw new RangeError('stale handle')
    if (peer === here) return ['descriptors', 'slabs', 'ipc']
    return peer === near ? ['descriptors', 'slabs'] : ['descriptors']
  },
  describeBlockTable: () => ({ blockCount: 64, blockSizesBytes: [512, 512] }),
} as unknown as TransferAgent

function chooserOf(path: TransferPath) {
  const counted = { slabs: 0 }
  const onSlabs = () => (counted.slabs += 1)
  const chooser = new PathChooser({ agent, path, isOnGpu: false, onSlabs })
  let nextTransfer = 0
  /** Posts it and lets it end after `us[path]`. */
  const move = (post: TransferPost, us: Record<AgentPath, number>) => {
    const routed = chooser.route(post)
    const transfer = (nextTransfer += 1) as TransferHandle
    chooser.posted(transfer, routed)
    const taken = routed.post.path ?? 'descriptors'
    const times = { prepareUs: 1, wireUs: us[taken] }
    chooser.ended({ transfer, status: 'done', times } as unknown as TransferCompletion)
    return taken
  }
  return { counted, move }
}

const scattered = (peer: PeerHandle): TransferPost => ({
  ...{ direction: 'write', peer, local: blocks(1, 3, 5, 7), remote: blocks(2, 4, 6, 8) },
})

test('auto: both are measured, then the cheaper one is taken; each peer by itself', () => {
  const { counted, move } = chooserOf('auto')
  const costs = { descriptors: 300, slabs: 100, ipc: 1 }
  const trials = Array.from({ length: 2 * protocolLimits.pathTrialCount }, () =>
    move(scattered(near!), costs),
  )
  expect(trials.filter((path) => path === 'slabs')).toHaveLength(protocolLimits.pathTrialCount)
  expect([1, 2, 3].map(() => move(scattered(near!), costs))).toEqual(['slabs', 'slabs', 'slabs'])
  expect(counted.slabs).toBe(protocolLimits.pathTrialCount + 3)
  // One that lends no slabs, and one that is no peer any more.
  for (const peer of [far!, gone!]) expect(move(scattered(peer), costs)).toBe('descriptors')
})

test('auto: a peer whose memory is mapped here is measured on all three paths', () => {
  const { move } = chooserOf('auto')
  const costs = { descriptors: 300, slabs: 100, ipc: 60 }
  const trials = Array.from({ length: 3 * protocolLimits.pathTrialCount }, () =>
    move(scattered(here!), costs),
  )
  for (const path of ['descriptors', 'slabs', 'ipc']) {
    expect(trials.filter((each) => each === path)).toHaveLength(protocolLimits.pathTrialCount)
  }
  expect([1, 2].map(() => move(scattered(here!), costs))).toEqual(['ipc', 'ipc'])
})

test('a configured path is taken without measuring', () => {
  const costs = { descriptors: 1, slabs: 9, ipc: 9 }
  const bySlabs = chooserOf('slabs')
  expect([1, 2, 3].map(() => bySlabs.move(scattered(near!), costs))).toEqual(
    Array.from({ length: 3 }, () => 'slabs'),
  )
  expect(bySlabs.counted.slabs).toBe(3)
  const byIpc = chooserOf('ipc')
  expect(byIpc.move(scattered(near!), costs)).toBe('ipc')
  expect(byIpc.counted.slabs).toBe(0)
  const direct = chooserOf('descriptors')
  expect(
    [1, 2, 3].map(() => direct.move(scattered(near!), { descriptors: 9, slabs: 1, ipc: 1 })),
  ).toEqual(Array.from({ length: 3 }, () => 'descriptors'))
})

test('neighbours on both sides are one piece a region; segments are what they are', () => {
  expect(pieceCountOf(blocks(1, 2, 3, 7), blocks(4, 5, 9, 10), 2)).toBe(6)
  expect(pieceCountOf(blocks(1), blocks(4), 3)).toBe(3)
  const segments = {
    ...{ table: other!, regions: Uint32Array.of(0, 1) },
    ...{ offsets: Float64Array.of(0, 0), lengths: Float64Array.of(8, 8) },
  }
  expect(pieceCountOf(segments, blocks(4), 1)).toBe(2)
  expect(pieceCountOf(blocks(4), segments, 1)).toBe(2)
})

test('slabs are there where auto may choose them: on the host for small blocks, on a GPU for all', () => {
  const regions = (blockSizeBytes: number) => [{ blockSizeBytes: 1_048_576 }, { blockSizeBytes }]
  expect(slabsFor('auto', regions(2_048))).toEqual({})
  expect(slabsFor('auto', regions(4_096))).toBe(null)
  expect(slabsFor('auto', regions(4_096), 'cuda')).toEqual({})
  expect(slabsFor('slabs', regions(4_096))).toEqual({})
  expect(slabsFor('descriptors', regions(64), 'cuda')).toBe(null)
})

test('the path ipc is there on a GPU, where it or auto is configured; refused in host memory', () => {
  expect(ipcFor('auto', 'cuda', { ctaCount: 8 })).toEqual({ ctaCount: 8 })
  expect(ipcFor('ipc', 'cuda')).toEqual({})
  expect(ipcFor('slabs', 'cuda')).toBe(null)
  expect(ipcFor('auto', 'host')).toBe(null)
  expect(() => ipcFor('ipc', 'host')).toThrow(/host memory: keep the KV on a GPU \(device cuda:N\)/)
  expect(resolveIpc({})).toEqual({ ctaCount: null })
  expect(resolveIpc({ ctaCount: 1 })).toEqual({ ctaCount: 1 })
  for (const ctaCount of [0, -1, 1.5, 1_025, NaN]) {
    expect(() => resolveIpc({ ctaCount })).toThrow(RangeError)
  }
})
