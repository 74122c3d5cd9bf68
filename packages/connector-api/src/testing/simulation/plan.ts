/**
 * What happens in one simulated run, as data: who asks for what and when, and what goes wrong. Everything
 * follows from the seed; a plan with parts left out is a plan too, which is what shrinking lives from.
 */
import { createSeededRandom } from '../seeded-random.ts'
import type { SeededRandom } from '../seeded-random.ts'
import type { FreeMode } from '../cluster/block-pool.ts'
import type { Job } from '../cluster/cluster-router.ts'
import type { ClockSkew } from '../cluster/skewed-clock.ts'
import type { WorldTimes } from '../cluster/world.ts'
import { EngineChoice } from './cluster-size.ts'
import type { ClusterSize } from './cluster-size.ts'

export interface PlannedJob {
  readonly atMs: number
  readonly job: Job
  readonly abort: { readonly side: 'producer' | 'consumer'; readonly afterMs: number } | null
  /** A router that tries again with the same handoff, there. */
  readonly repeatAt: { readonly consumer: string; readonly afterMs: number } | null
}

export type FaultKind =
  | 'partition'
  | 'break-associations'
  | 'stall-transfers'
  | 'fail-transfers'
  | 'lose-notifications'
  | 'duplicate-notifications'
  | 'delay-notifications'
  | 'delay-messages'
  | 'forge-notifications'
  | 'stop-host'
  | 'break-host'
  | 'kill'
  | 'kill-in-transfer'

export interface PlannedFault {
  readonly atMs: number
  readonly kind: FaultKind
  /** Names of engines. */
  readonly producer: string
  readonly consumer: string
  /** Which of the two, where one is meant. */
  readonly victim: string
  readonly lengthMs: number
  /** 0 … 1: a chance, or a share of the largest delay. */
  readonly strength: number
}

/** What the engines are like, as far as the connector's manifest allows it. */
export interface ClusterShape {
  /** Ranks of each engine where TP sizes must be equal. */
  readonly tpSize: number
  /** And where they need not be; null: these are equal too. */
  readonly mapped: {
    readonly producerTpSize: number
    readonly consumerTpSize: number
    readonly layout: string
  } | null
  readonly consumerBlockTokens: number
  /** Where tokens and heads may come in another order at the consumer's; null: they don't. */
  readonly layouts: { readonly producer: string; readonly consumer: string } | null
  /** Blocks go through host memory. */
  readonly isStaged: boolean
  /** Conversations go on: the next prompt begins with the last one, and its KV is where it was decoded. */
  readonly hasTurns: boolean
}

export interface SimulationPlan {
  readonly seed: number
  readonly size: ClusterSize
  readonly jobs: readonly PlannedJob[]
  readonly faults: readonly PlannedFault[]
  readonly skew: Readonly<Record<string, ClockSkew>>
  readonly times: WorldTimes
  readonly shape: ClusterShape
  readonly freeMode: FreeMode
  readonly loadFailurePolicy: 'recompute' | 'fail'
  readonly blockCount: number
  readonly stepTokenCountMax: number
}

const producers = ['p0', 'p1'] as const
const consumers = ['d0', 'd1'] as const

const faultKinds: readonly FaultKind[] = [
  'partition',
  'break-associations',
  'stall-transfers',
  'fail-transfers',
  'lose-notifications',
  'duplicate-notifications',
  'delay-notifications',
  'delay-messages',
  'forge-notifications',
  'stop-host',
  'break-host',
  'kill',
  'kill',
  'kill',
]

export function planSimulation(seed: number): SimulationPlan {
  const random = createSeededRandom(seed).fork('plan')
  const choice = new EngineChoice(seed)
  const { size } = choice
  const pick = <T>(of: readonly T[]): T => of[random.integer(of.length)]!
  // Half of the runs are crowded in time, half spread out.
  const lengthMs = pick([60, 600])
  const jobs = Array.from({ length: 6 + random.integer(10) }, (_, index) =>
    choice.moveJob(planJob(random, index, lengthMs)),
  )
  const faults = Array.from({ length: random.integer(6) }, () =>
    choice.moveFault(planFault(random, lengthMs)),
  )
  const restart = random.chance(0.1) ? planRestart(random) : { jobs: [], faults: [] }
  return {
    seed,
    size,
    jobs: [...jobs, ...restart.jobs.map((job) => choice.fitJob(job))],
    faults: [
      ...faults,
      ...restart.faults.map((fault) => choice.fitFault(fault)),
      ...planKillInTransfer(seed, jobs),
    ],
    skew: planSkews(random, seed, size),
    times: {
      bandwidthBytesPerMs: pick([64, 256, 4_096]),
      pageSizeBytes: 64,
      isTargetPollingNeeded: random.chance(0.8),
    },
    shape: planShape(seed),
    freeMode: pick(['poisoned', 'cached']),
    loadFailurePolicy: random.chance(0.8) ? 'recompute' : 'fail',
    blockCount: pick([24, 48]),
    stepTokenCountMax: pick([16, 64]),
  }
}

const mappedSizes = [
  [2, 1],
  [1, 2],
  [4, 2],
  [2, 4],
] as const

function planShape(seed: number): ClusterShape {
  const random = createSeededRandom(seed).fork('shape')
  return {
    tpSize: random.chance(0.2) ? 2 : 1,
    mapped: planRanks(seed),
    consumerBlockTokens: random.chance(0.2) ? 8 : 4,
    layouts: planLayouts(seed),
    hasTurns: random.chance(0.3),
    isStaged: random.chance(0.15),
  }
}

function planRanks(seed: number): ClusterShape['mapped'] {
  const random = createSeededRandom(seed).fork('ranks')
  if (!random.chance(0.2)) return null
  const [producerTpSize, consumerTpSize] = mappedSizes[random.integer(mappedSizes.length)]!
  const layout = random.chance(0.3) ? 'LBNHC' : 'LBHNC'
  return { producerTpSize, consumerTpSize, layout }
}

function planLayouts(seed: number): ClusterShape['layouts'] {
  const random = createSeededRandom(seed).fork('layouts')
  if (!random.chance(0.2)) return null
  const [producer, consumer] = random.chance(0.5) ? ['LBHNC', 'LBNHC'] : ['LBNHC', 'LBHNC']
  return { producer: producer!, consumer: consumer! }
}

function planJob(random: SeededRandom, index: number, lengthMs: number): PlannedJob {
  const [producer, consumer] = [producers, consumers].map((of) => of[random.integer(2)]!)
  // Now and then the other way round: every engine may be both.
  const isTurned = random.chance(0.1)
  const isAborted = random.chance(0.15)
  const isRepeated = random.chance(0.1)
  return {
    atMs: random.uniform() * lengthMs,
    job: {
      // Ids come again: in another life of an engine they mean something else.
      id: `r${random.chance(0.5) ? random.integer(3) : index}`,
      // Some prompts come again, longer or shorter.
      prompt: random.chance(0.5) ? 1 + random.integer(3) : 100 + index,
      promptTokenCount: 1 + random.integer(40),
      outputTokenCount: 1 + random.integer(4),
      producer: isTurned ? consumer! : producer!,
      consumer: isTurned ? producer! : consumer!,
      hopMs: random.chance(0.1) ? 3_000 * random.uniform() : 0.2,
    },
    abort: isAborted
      ? {
          side: random.chance(0.2) ? 'producer' : 'consumer',
          afterMs: random.uniform() * (random.chance(0.5) ? 10 : 100),
        }
      : null,
    repeatAt: isRepeated
      ? { consumer: consumers[random.integer(2)]!, afterMs: random.uniform() * 40 }
      : null,
  }
}

function planFault(random: SeededRandom, lengthMs: number): PlannedFault {
  const producer = producers[random.integer(2)]!
  const consumer = consumers[random.integer(2)]!
  return {
    atMs: random.uniform() * lengthMs,
    kind: faultKinds[random.integer(faultKinds.length)]!,
    producer,
    consumer,
    victim: random.chance(0.5) ? producer : consumer,
    lengthMs: random.uniform() * (random.chance(0.5) ? 100 : 2_500),
    strength: random.uniform(),
  }
}

/**
 * A coincidence that chance alone brings too seldom: a handoff is on its way while its producer gets a new
 * life, in which the same id stands for another prompt.
 */
function planRestart(random: SeededRandom): Pick<SimulationPlan, 'jobs' | 'faults'> {
  const fault = { ...planFault(random, 100), kind: 'kill', lengthMs: 5 } as const
  const { atMs, producer } = fault
  const { job, ...first } = planJob(random, 99, 0)
  const of = (startMs: number, prompt: number, hopMs: number): PlannedJob => ({
    ...first,
    abort: null,
    atMs: startMs,
    job: { ...job, id: 'again', prompt, producer, hopMs },
  })
  return {
    jobs: [of(Math.max(0, atMs - 20), 200, 80), of(atMs + 20, 201, 1_000)],
    faults: [{ ...fault, victim: producer, atMs: atMs + 10 }],
  }
}

/** One that chance alone brings too seldom: a producer, or a reader, that leaves a transfer half done. */
function planKillInTransfer(seed: number, jobs: readonly PlannedJob[]): readonly PlannedFault[] {
  const random = createSeededRandom(seed).fork('kill in transfer')
  if (!random.chance(0.2)) return []
  const { atMs, job } = jobs[random.integer(jobs.length)]!
  const { producer, consumer } = job
  const victim = random.chance(0.8) ? producer : consumer
  const fault = { ...planFault(random, 0), atMs, producer, consumer, victim }
  return [{ ...fault, kind: 'kill-in-transfer', lengthMs: 200 }]
}

/** Of the engines that every plan has from the plan's own chances, of the others from theirs. */
function planSkews(random: SeededRandom, seed: number, size: ClusterSize) {
  const common = [...producers, ...consumers].map((name) => [name, planSkew(random)] as const)
  const more = createSeededRandom(seed).fork('skew of more')
  const thirds = [size.producers[2], size.consumers[2]].flatMap((name) =>
    name === undefined ? [] : [[name, planSkew(more)] as const],
  )
  return Object.fromEntries([...common, ...thirds])
}

/** Machines agree on a second to some parts in a thousand, and on nothing else. */
const planSkew = (random: SeededRandom): ClockSkew => ({
  offsetMs: 1e6 * random.uniform(),
  rate: 1 + 0.004 * (random.uniform() - 0.5),
})
