/**
 * `kvferry-bench micro --history` as a function: what the index of the history costs for each block of a
 * prompt that is found whole (looked up, reserved, touched), by how many blocks it holds. Keys are made
 * before; nothing is copied. All sizes are measured in turn, in one process.
 */
import { silentLogger, silentMetrics, type KvHistory } from '@kvferry/connector-api'
import {
  createSeededRandom,
  createSimClock,
  type SeededRandom,
} from '@kvferry/connector-api/testing'
import { historyLimits, historyPolicies, TieredHistory } from '@kvferry/kv-history'
import { nearestRank } from '../lib/distribution.ts'
import { readEnvironment } from '../lib/environment.ts'
import { silentProgress, type Progress } from '../lib/progress.ts'
import { historyCases, type HistoryRound } from './history-statistics.ts'
import type { MicroHistoryResult } from './result.ts'
import { micro } from './settings.ts'

export interface MicroHistoryOptions {
  readonly rounds?: number
  /** Entries of the histories; the bars want the first to be the smallest. */
  readonly entryCounts?: readonly number[]
  readonly progress?: Progress
  readonly signal?: AbortSignal
}

/** A history that is full, and the prompts that it holds. */
interface FilledHistory {
  readonly history: KvHistory
  readonly entryCount: number
  readonly bytesPerEntry: number
  /** Keys of one prompt each. */
  readonly prompts: readonly Uint8Array[]
}

const { blocksPerPrompt, promptsPerRound, seed } = micro.history
const keyBytes = 32
/** A copy that takes no time ends within it. */
const waitMsMax = 60_000

const copies = { copy: () => Promise.resolve(), reservedBytes: () => 0, close() {} }

/** Filled twice over, so that entries lie where others were displaced, as in a history that has run for long. */
async function fill(
  entryCount: number,
  random: SeededRandom,
  signal: AbortSignal | undefined,
): Promise<FilledHistory> {
  const clock = createSimClock()
  const before = process.memoryUsage().arrayBuffers
  const history = new TieredHistory({
    sizes: {
      blockBytes: 1,
      deviceBlockCapacity: Math.floor(entryCount / 2),
      hostBlockCapacity: Math.ceil(entryCount / 2),
    },
    policy: historyPolicies['copy-on-eviction'],
    bounds: { ...historyLimits, chunkBlockCountMax: blocksPerPrompt, writerDeadlineMs: Infinity },
    regionSizes: [1],
    deviceMemory: 'host',
    ...{ copies, clock, random, logger: silentLogger, metrics: silentMetrics },
  })
  const bytesPerEntry = (process.memoryUsage().arrayBuffers - before) / entryCount
  const promptCount = Math.floor(entryCount / blocksPerPrompt)
  const blockIds = new Uint32Array(blocksPerPrompt)
  const prompts: Uint8Array[] = []
  for (let index = 0; index < 2 * promptCount; index += 1) {
    if (index % 256 === 0) signal?.throwIfAborted()
    const keys = random.bytes(keyBytes * blocksPerPrompt)
    const ended = history.offer({ keys, blockIds })
    if (ended !== null) await clock.wait(ended, waitMsMax)
    if (index >= promptCount) prompts.push(keys)
  }
  return { history, entryCount, bytesPerEntry, prompts }
}

/**
 * Microseconds a block, of the median prompt of some in no order: what the machine does to single ones is not
 * the index's. Leases are released outside of the time.
 */
function measureOnce({ history, prompts }: FilledHistory, random: SeededRandom): number {
  const durationsMs: number[] = []
  for (let count = 0; count < promptsPerRound; count += 1) {
    const keys = prompts[random.integer(prompts.length)]!
    const start = performance.now()
    const found = history.lookup(keys, 0)
    const reservation = history.reserve(keys, 0)
    durationsMs.push(performance.now() - start)
    if (found !== blocksPerPrompt || reservation?.blockCount !== blocksPerPrompt) {
      throw new Error(`${found} of ${blocksPerPrompt} blocks found: the history is broken`)
    }
    history.release(reservation.lease)
  }
  const median = nearestRank(
    durationsMs.sort((a, b) => a - b),
    50,
  )
  return (1_000 * median) / blocksPerPrompt
}

export async function runMicroHistory(
  options: MicroHistoryOptions = {},
): Promise<MicroHistoryResult> {
  const { progress = silentProgress, signal } = options
  const { rounds: roundCount = micro.history.roundCount } = options
  const entryCounts = options.entryCounts ?? micro.history.entryCounts
  const random = createSeededRandom(seed)
  const filled: FilledHistory[] = []
  for (const entryCount of entryCounts) {
    progress.phase(`filling a history of ${entryCount} blocks`)
    filled.push(await fill(entryCount, random, signal))
  }
  progress.phase('lookup, reserve, touch: all sizes in turn', roundCount)
  const rounds: HistoryRound[] = []
  for (let round = -micro.history.warmUpRoundCount; round < roundCount; round += 1) {
    signal?.throwIfAborted()
    const us = filled.map((each) => measureOnce(each, random))
    // The smallest once more: equals that are compared, for the noise.
    const again = measureOnce(filled[0]!, random)
    if (round < 0) continue
    rounds.push({ us, again })
    progress.tick(rounds.length)
    await new Promise((resolve) => setImmediate(resolve))
  }
  const sizes = filled.map(({ entryCount, bytesPerEntry }) => ({ entryCount, bytesPerEntry }))
  const { cases, spread } = historyCases(rounds, sizes, blocksPerPrompt)
  const failures = cases.flatMap(({ label, bar }) =>
    bar.verdict === 'fail' ? [`${label}: ${bar.value} (bar: ${bar.limit}; ${bar.rule})`] : [],
  )
  const deviceTier = 'none: blocks are found, not copied'
  return {
    schema: 'kvferry.micro/1',
    agent: 'none',
    environment: readEnvironment({ seed, nixl: null, ucx: null, transports: [], deviceTier }),
    workload: { rounds: roundCount, blocksPerPrompt, promptsPerRound },
    noiseFloor: { method: 'a-a-pairs', label: cases[0]!.label, spread, unit: 'ratio' },
    cases,
    verdict: { ok: failures.length === 0, failures },
  }
}
