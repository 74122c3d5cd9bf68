/** Replays one trace under every policy at every capacity. */
import type { HistoryPolicyName } from '@kvferry/connector-api'
import { readEnvironment } from '../lib/environment.ts'
import type { Progress } from '../lib/progress.ts'
import { replayTrace, type Replay } from './replay.ts'
import type { TraceCapacity, TraceResult, TraceRun } from './result.ts'
import { traceBlockTokens, type TraceRequest } from './trace-request.ts'
import { describeTrace } from './trace-shape.ts'

export interface TraceOptions {
  readonly requests: readonly TraceRequest[]
  readonly source: TraceResult['workload']['source']
  readonly file: string | null
  readonly policies: readonly HistoryPolicyName[]
  readonly capacities: readonly { readonly devicePercent: number; readonly hostPercent: number }[]
  readonly blockBytes: number
  readonly probationKeysMax: number | null
  readonly seed: number
  readonly progress: Progress
  readonly signal: AbortSignal
}

const percentSteps = 100

export async function runTrace(options: TraceOptions): Promise<TraceResult> {
  const { requests, policies, capacities, blockBytes, probationKeysMax, progress, signal } = options
  const shape = describeTrace(requests)
  const runs: TraceRun[] = []
  for (const percents of capacities) {
    const blocksOf = (percent: number) => Math.floor((percent / 100) * shape.uniqueBlocks)
    const deviceBlocks = blocksOf(percents.devicePercent)
    const hostBlocks = blocksOf(percents.hostPercent)
    for (const policy of policies) {
      progress.phase(`${policy}, ${deviceBlocks} + ${hostBlocks} blocks`, percentSteps)
      const replay = await replayTrace(requests, {
        ...{
          policy,
          signal,
          blockSizeBytes: blockBytes,
          probationKeyCountMax: probationKeysMax ?? Infinity,
        },
        ...{ deviceCapacity: deviceBlocks, hostCapacity: hostBlocks },
        onProgress: (share) => progress.tick(Math.floor(share * percentSteps)),
      })
      runs.push(entryOf(policy, { ...percents, deviceBlocks, hostBlocks }, replay, blockBytes))
    }
  }
  return {
    schema: 'kvferry.trace/1',
    environment: readEnvironment({
      ...{ seed: options.seed, nixl: null, ucx: null, transports: [] },
      deviceTier: 'none: blocks are counted, not copied',
    }),
    workload: {
      ...{ source: options.source, file: options.file, ...shape },
      ...{ blockTokens: traceBlockTokens, blockBytes, probationKeysMax },
    },
    noiseFloor: { method: 'deterministic', spread: 0 },
    runs,
  }
}

function entryOf(
  label: HistoryPolicyName,
  capacity: TraceCapacity,
  { hits, deviceHits, references, writtenBlocks, counters }: Replay,
  blockBytes: number,
): TraceRun {
  const bytesWritten = {
    device: writtenBlocks.device * blockBytes,
    host: writtenBlocks.host * blockBytes,
  }
  const written = bytesWritten.device + bytesWritten.host
  return {
    ...{ label, capacity, bytesWritten, counters },
    hitRatio: hits / references,
    deviceHitRatio: deviceHits / references,
    hostWritesPerReference: writtenBlocks.host / references,
    hitsPerByteWritten: written === 0 ? null : hits / written,
  }
}
