/** Whether descriptors to a peer are emulated, from costs that the test injects, and what `path: auto` makes of it. */
import { describe, expect, test } from 'vitest'
import type {
  AgentPath,
  BlockTableHandle,
  LogFields,
  PeerHandle,
  PeerIdentity,
  TransferAgent,
  TransferCompletion,
  TransferHandle,
  TransferPath,
  TransferPost,
  WorkerComponents,
} from '../src/index.ts'
import {
  Counters,
  PathChooser,
  judgeRate,
  protocolLimits,
  reportEmulation,
  unknownEmulation,
  type EmulatedDirection,
  type RateSample,
} from '../src/protocol/index.ts'

const mib = 1_048_576
const { pathTrialCount } = protocolLimits
const usAt = (bytes: number, gigabytesPerSecond: number) => bytes / gigabytesPerSecond / 1_000
const onePiece = (gigabytesPerSecond: number, bytes = mib): RateSample => ({
  ...{ bytes, descriptorCount: 1, us: usAt(bytes, gigabytesPerSecond) },
})
const judged = (...samples: RateSample[]) => samples.reduce(judgeRate, unknownEmulation)

describe('judgeRate', () => {
  test.each([0.1, 0.4, 2])(
    'at %f GB/s, several times, it is emulated, and says the rate',
    (rate) => {
      const samples = Array.from({ length: pathTrialCount }, () => onePiece(rate))
      expect(judged(...samples.slice(1)).verdict).toBe('unknown')
      const { verdict, gigabytesPerSecond } = judged(...samples)
      expect(verdict).toBe('emulated')
      expect(gigabytesPerSecond).toBeCloseTo(rate, 5)
    },
  )

  test('one transfer at the speed of a link says that it was direct, for good', () => {
    const slow = Array.from({ length: 2 * pathTrialCount }, () => onePiece(0.4))
    // The first between two processes opens the way: a millisecond.
    expect(judged(onePiece(0.7), onePiece(96), ...slow).verdict).toBe('direct')
    expect(judged(...slow, onePiece(96)).verdict).toBe('emulated')
  })

  test('many small pieces cost their posts: what a link needs for them is no emulation', () => {
    const pieces = (bytesEach: number, us: number): RateSample => ({
      ...{ bytes: 256 * mib, descriptorCount: (256 * mib) / bytesEach, us },
    })
    // Measured between two GPUs, READ of 256 MiB: idle, and with a spinning progress thread.
    const real = [pieces(4_096, 297_000), pieces(16_384, 76_000), pieces(4_096, 650_000)]
    for (const sample of real) {
      expect(judged(...Array.from({ length: 9 }, () => sample)).verdict).toBe('unknown')
    }
    const emulated = pieces(65_536, usAt(256 * mib, 0.4))
    expect(judged(...Array.from({ length: pathTrialCount }, () => emulated)).verdict).toBe(
      'emulated',
    )
  })

  test('small transfers say nothing', () => {
    const tiny = Array.from({ length: 99 }, () => onePiece(0.1, mib - 1))
    expect(judged(...tiny)).toEqual(unknownEmulation)
  })
})

const table = 1 as unknown as BlockTableHandle
const [near, alone] = [1, 2] as unknown as PeerHandle[]
const agent = {
  paths: ['descriptors', 'slabs', 'ipc'],
  pathsTo: (peer: PeerHandle) =>
    peer === near ? ['descriptors', 'slabs', 'ipc'] : ['descriptors'],
  describeBlockTable: () => ({ blockCount: 64, blockSizesBytes: [mib] }),
} as unknown as TransferAgent

function chooserOf(path: TransferPath, isOnGpu = true) {
  const chooser = new PathChooser({ agent, path, isOnGpu, onSlabs: () => {} })
  let nextTransfer = 0
  const begin = (peer: PeerHandle, direction: 'read' | 'write' = 'write') => {
    const side = { table, blockIds: Uint32Array.of(1) }
    const post: TransferPost = { direction, peer, local: side, remote: side }
    const routed = chooser.route(post)
    const transfer = (nextTransfer += 1) as TransferHandle
    chooser.posted(transfer, routed)
    const end = (us: number) => {
      const times = { prepareUs: 0, wireUs: us, descriptorsAfterMerge: 1 }
      return chooser.ended({ transfer, status: 'done', times } as unknown as TransferCompletion)
    }
    return { path: routed.post.path ?? 'descriptors', end }
  }
  /** Posts one and lets it end; answers its path and what that showed. */
  const move = (us: Record<AgentPath, number>, peer = near!, direction?: 'read' | 'write') => {
    const { path: taken, end } = begin(peer, direction)
    return { path: taken, found: end(us[taken]) }
  }
  return { begin, move }
}

const emulatedUs = usAt(mib, 0.5)
/** Descriptors are emulated, and still what costs least here: a rate that low is never worth it for long. */
const prices = { descriptors: emulatedUs, slabs: emulatedUs + 1, ipc: emulatedUs + 2 }

describe('path: auto', () => {
  test('a peer whose descriptors are emulated gets none any more, in that direction; told once', () => {
    const { move } = chooserOf('auto')
    const moves = Array.from({ length: 60 }, () => move(prices))
    const found = moves.flatMap(({ found }) => (found === null ? [] : [found]))
    expect(found).toEqual([
      { direction: 'write', gigabytesPerSecond: expect.closeTo(0.5, 5), isAvoided: true },
    ])
    const taken = moves.map(({ path }) => path)
    expect(taken.filter((path) => path === 'descriptors')).toHaveLength(pathTrialCount)
    // Of the others the cheaper, measured anew.
    expect(new Set(taken.slice(-20))).toEqual(new Set(['slabs']))
    expect(move(prices, near, 'read').path).toBe('descriptors')
  })

  test('a direct peer keeps its descriptors', () => {
    const { move } = chooserOf('auto')
    const direct = { descriptors: 11, slabs: 100, ipc: 90 }
    const moves = Array.from({ length: 30 }, () => move(direct))
    expect(moves.every(({ found }) => found === null)).toBe(true)
    expect(new Set(moves.slice(-9).map(({ path }) => path))).toEqual(new Set(['descriptors']))
  })

  test('a peer that has nothing else goes on by descriptors, and it is said', () => {
    for (const { move } of [chooserOf('auto'), chooserOf('descriptors')]) {
      const moves = Array.from({ length: 9 }, () => move(prices, alone))
      expect(moves.map(({ path }) => path)).toEqual(moves.map(() => 'descriptors'))
      const found = moves.map(({ found }) => found).filter((each) => each !== null)
      expect(found).toMatchObject([{ isAvoided: false }])
    }
  })

  test('transfers that share the link are slow together: what was under way meanwhile counts', () => {
    const { begin } = chooserOf('descriptors')
    for (let round = 0; round < 9; round += 1) {
      const all = Array.from({ length: 64 }, () => begin(near!))
      // Each ends when the link has moved all of them, at 50 GB/s.
      const us = usAt(64 * mib, 50)
      for (const { end } of all) expect(end(us)).toBe(null)
    }
  })

  test('neighbours that became one piece, or did not: what the agent says of them counts', () => {
    const chooser = new PathChooser({
      agent,
      path: 'descriptors',
      isOnGpu: true,
      onSlabs: () => {},
    })
    let count = 0
    const move = (descriptorsAfterMerge: number, us: number) => {
      const transfer = (count += 1) as TransferHandle
      const blockIds = Uint32Array.from({ length: 64 }, (_, id) => id)
      const side = { table, blockIds }
      const post: TransferPost = { direction: 'read', peer: near!, local: side, remote: side }
      chooser.posted(transfer, chooser.route(post))
      const times = { prepareUs: 0, wireUs: us, descriptorsAfterMerge }
      return chooser.ended({ transfer, status: 'done', times } as unknown as TransferCompletion)
    }
    // 64 MiB: at 3.9 GB/s in one piece it is emulated, in 2,000 pieces it is what these cost.
    const us = usAt(64 * mib, 3.9)
    for (let round = 0; round < 9; round += 1) expect(move(2_000, us)).toBe(null)
    const found = [1, 2, 3].map(() => move(1, us))
    expect(found.map((each) => each?.direction ?? null)).toEqual([null, null, 'read'])
  })

  test('host memory has no emulation to look for', () => {
    const { move } = chooserOf('descriptors', false)
    for (let round = 0; round < 9; round += 1) expect(move(prices).found).toBe(null)
  })
})

test('the report names peer, direction, rate, cause and remedy, and counts in stats and metrics', () => {
  const warnings: [string, LogFields | undefined][] = []
  const counted: unknown[] = []
  const components = {
    logger: { warn: (message: string, fields?: LogFields) => warnings.push([message, fields]) },
    metrics: { add: (...all: unknown[]) => counted.push(all) },
  } as unknown as WorkerComponents
  const counters = new Counters(['peersEmulated'])
  const found: EmulatedDirection = { direction: 'read', gigabytesPerSecond: 0.41, isAvoided: true }
  const peer = { identity: { engineId: 'engine-2' } as PeerIdentity, rank: 3 }
  reportEmulation({ components, counters }, peer, null)
  reportEmulation({ components, counters }, peer, found)
  expect(counters.snapshot()).toEqual({ peersEmulated: 1 })
  expect(counted).toEqual([['kv_emulated_peers_total', 1, { direction: 'read' }]])
  expect(warnings).toEqual([
    [
      'READs by descriptors run at 0.41 GB/s, as software emulation does',
      expect.objectContaining({
        ...{ engineId: 'engine-2', rank: 3, direction: 'read', isAvoided: true },
        cause: expect.stringContaining('cuda_ipc') as string,
        remedy: expect.stringContaining('doctor --rates') as string,
      }),
    ],
  ])
})
