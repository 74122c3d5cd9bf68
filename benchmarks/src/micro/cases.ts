/**
 * The measurements of `micro`, each from running processes to one case of the result. Called in order by
 * runMicroAgent: never two at once, since they share the machine.
 */
import { createDistribution } from '../lib/distribution.ts'
import type { Progress } from '../lib/progress.ts'
import type { LineProcess } from './line-process.ts'
import {
  atMost,
  comparePairs,
  interleave,
  onlyReported,
  spreadOf,
  throughputBar,
  type Pair,
} from './pair-statistics.ts'
import type { Participants, Side } from './participants.ts'
import type { CpuCase, DistributionCase, ThroughputCase } from './result.ts'
import { micro } from './settings.ts'

const toUs = (ns: number): number => ns / 1_000
const numbers = (words: readonly string[]): number[] => words.map(Number)

async function roundNs(initiator: LineProcess, sizeBytes: number, depth: number): Promise<number> {
  const [ns] = numbers(await initiator.request(`run ${sizeBytes} ${depth}`))
  if (ns === undefined || !(ns > 0)) throw new Error(`${initiator.name}: no time of a round`)
  return ns
}

export interface ThroughputSides {
  readonly ours: Side
  readonly bare: Side
  /** A second bare loop: A-A. */
  readonly bareAgain: Side
}

export async function measureThroughput(
  { ours, bare, bareAgain }: ThroughputSides,
  point: { readonly sizeBytes: number; readonly depth: number; readonly pairs: number },
  progress: Progress,
): Promise<ThroughputCase> {
  const { sizeBytes, depth } = point
  const label = `${sizeBytes / 1_048_576} MiB × ${depth}`
  const compare = async (title: string, a: Side, b: Side): Promise<Pair[]> => {
    let done = 0
    progress.phase(`${title}, ${label}`, point.pairs)
    return interleave(
      () => roundNs(a.initiator, sizeBytes, depth),
      () => roundNs(b.initiator, sizeBytes, depth),
      {
        count: point.pairs,
        warmUpCount: micro.warmUpPairCount,
        onPair: () => progress.tick(++done),
      },
    )
  }
  const same = comparePairs(await compare('A-A (bare, bare)', bare, bareAgain))
  const pairs = await compare('A-B (bare, ours)', bare, ours)
  const paired = comparePairs(pairs)
  const spread = spreadOf(same)
  const isBar = sizeBytes === micro.bar.sizeBytes && depth === micro.bar.depth
  const { ratioMin } = micro.bar
  return {
    kind: 'throughput',
    label,
    direction: 'read',
    sizeBytes,
    depth,
    descriptors: {
      countPerTransfer: sizeBytes / micro.descriptorSizeBytes,
      sizeBytes: micro.descriptorSizeBytes,
    },
    pairs: pairs.length,
    oursUs: createDistribution(pairs.map(({ bNs }) => toUs(bNs))),
    bareUs: createDistribution(pairs.map(({ aNs }) => toUs(aNs))),
    ratio: paired.ratio,
    ratioMedianInterval: paired.medianInterval,
    noise: { ratio: same.ratio, ratioMedianInterval: same.medianInterval, spread },
    bar: isBar
      ? throughputBar(paired, spread, { ratioMin, spreadMax: micro.spreadMax })
      : onlyReported('median of paired throughput ratios', paired.ratio.p50 ?? 0),
  }
}

/** Each side must hold the bytes of its last rounds, and no others. */
export async function verifySides(sides: readonly Side[], depthMax: number): Promise<void> {
  const blocks = (depthMax * Math.max(...micro.sizesBytes)) / micro.descriptorSizeBytes
  for (const { initiator } of sides) await initiator.request(`verify ${blocks}`)
}

/** Posts that find the agent at work, and those that find it asleep. */
export async function measurePost({
  initiator,
}: Side): Promise<[atWork: DistributionCase, asleep: DistributionCase]> {
  const { burstCount, burstLength, descriptorCount, p50UsMax } = micro.post
  const times = numbers(await initiator.request(`post ${burstCount} ${burstLength}`)).map(toUs)
  const busy = createDistribution(times.filter((_, i) => i % burstLength !== 0))
  const first = createDistribution(times.filter((_, i) => i % burstLength === 0))
  const rule = 'median time of the JavaScript thread in one post'
  const label = `post of ${descriptorCount} descriptors`
  return [
    {
      kind: 'post-js-thread',
      label: `${label}, agent at work`,
      us: busy,
      bar: atMost(`${rule} at most ${p50UsMax} µs`, busy.p50 ?? Infinity, p50UsMax),
    },
    {
      kind: 'post-js-thread',
      label: `${label}, agent asleep`,
      us: first,
      bar: onlyReported(rule, first.p50 ?? Infinity),
    },
  ]
}

export async function measureCpu(idle: LineProcess): Promise<CpuCase[]> {
  const { durationMs, shareMax } = micro.idle
  const share = async (mode: 'quiet' | 'expecting'): Promise<number> => {
    const [cpuNs] = numbers(await idle.request(`idle ${durationMs} ${mode}`))
    return (cpuNs ?? NaN) / (durationMs * 1e6)
  }
  const quiet = await share('quiet')
  const polling = await share('expecting')
  return [
    {
      kind: 'idle-cpu',
      label: 'agent with nothing open',
      durationMs,
      share: quiet,
      bar: atMost(`below ${shareMax * 100} % of a core`, quiet, shareMax),
    },
    {
      kind: 'polling-cpu',
      label: 'agent that expects notifications',
      durationMs,
      share: polling,
      bar: onlyReported('share of a core', polling),
    },
  ]
}

/** A bare peer writes into our agent's memory and stamps its final status; our callback stamps, too. */
export async function measureCallback(participants: Participants): Promise<DistributionCase> {
  const { count, gapMsMax, p99UsMax } = micro.callback
  const listener = await participants.ours('callback-listener')
  const peer = await participants.bare('callback-peer')
  await listener.process.request('serve')
  await peer.process.request(`connect ${listener.words.slice(0, 2).join(' ')}`)
  const [heardAt, sentAt] = await Promise.all([
    listener.process.request(`collect ${count}`).then(numbers),
    peer.process.request(`notify ${count} ${gapMsMax}`).then(numbers),
  ])
  const delays = heardAt.map((at, i) => toUs(at - (sentAt[i] ?? NaN)))
  const us = createDistribution(delays)
  const rule = `99 % within ${p99UsMax} µs of the peer's final status`
  return {
    kind: 'completion-to-callback',
    label: 'peer’s completion → our callback',
    us,
    bar: atMost(rule, us.p99 ?? Infinity, p99UsMax),
  }
}
