/**
 * Carries out one plan and judges it: a cluster of one to three producers and consumers each under load and faults,
 * then time without faults until everything must have come to its end. Two runs of one plan write the same
 * transcript, or somebody uses time or chance that was not given to them.
 */
import type { ConnectorFactory, KvTransferParams } from '../../connector.ts'
import type { HistoryProvider } from '../../history.ts'
import type { KvferryConfig, TransferPath } from '../../config.ts'
import { Cluster } from '../cluster/cluster.ts'
import type { Violation } from '../cluster/auditor.ts'
import type { Journey } from '../cluster/cluster-router.ts'
import { defaultBlockTokens } from '../cluster/layout.ts'
import type { World } from '../cluster/world.ts'
import { applyFault } from './faults.ts'
import type { PlannedJob, SimulationPlan } from './plan.ts'
import { RecentNotifications } from './recent-notifications.ts'

export interface SimulationTarget {
  readonly factory: ConnectorFactory
  /** Of the connector; short leases and deadlines make runs short. */
  readonly options?: Readonly<Record<string, unknown>>
  /** Instead of them in runs whose conversations go on. */
  readonly nextTurnOptions?: Readonly<Record<string, unknown>>
  /** `config.path` of every engine. Default `descriptors`. */
  readonly path?: TransferPath
  /** What makes engines stage blocks in host memory; absent: they can't. */
  readonly stagingConfig?: Partial<KvferryConfig>
  /** What worker halves may open in every other seed; in the others they have none. */
  readonly history?: (world: World) => HistoryProvider
  /** Everything is over this long after the last fault. */
  readonly boundMs: number
}

export interface SimulationResult {
  readonly violations: readonly Violation[]
  readonly transcript: readonly string[]
  /**
   * How loads ended: `loaded`, an error code, or `computed`. And those of producers that have a history: `restored`, or
   * an error code after `restore: `.
   */
  readonly endings: readonly string[]
}

/** Steps of an engine that is only told to go on stepping. */
const idleStepMs = 100
/** From one turn's start to the next one's, and what the client adds meanwhile. */
const thinkMs = 200
const addedTokenCount = 5

export async function runSimulation(
  target: SimulationTarget,
  plan: SimulationPlan,
): Promise<SimulationResult> {
  const { factory, boundMs } = target
  const { ranks, producer, consumer, hasTurns } = shapeOf(target, plan)
  const { producers, consumers } = plan.size
  const { options = {}, nextTurnOptions = options } = target
  const { freeMode, loadFailurePolicy, blockCount, stepTokenCountMax, skew, times, seed } = plan
  const heard = new RecentNotifications()
  const history = seed % 2 === 1 ? target.history : undefined
  const cluster = await Cluster.open({
    ...{ factory, seed, path: target.path ?? 'descriptors' },
    times,
    skew,
    producerCount: producers.length,
    consumerCount: consumers.length,
    engines: {
      options: hasTurns ? nextTurnOptions : options,
      config: (plan.shape.isStaged && target.stagingConfig) || {},
      ...ranks,
      freeMode,
      loadFailurePolicy,
      blockCount,
      stepTokenCountMax,
      idleStepMs,
      wrapAgent: (agent) => heard.tap(agent),
      ...(history === undefined ? {} : { history }),
    },
    engine: Object.fromEntries([
      ...producers.map((name) => [name, producer] as const),
      ...consumers.map((name) => [name, consumer] as const),
    ]),
  })
  const { clock } = cluster.world
  let endMs = 0
  for (const job of plan.jobs) {
    clock.after(job.atMs, () => start(cluster, job, hasTurns))
    endMs = Math.max(endMs, job.atMs + (job.job.hopMs ?? 0) + (job.repeatAt?.afterMs ?? 0))
  }
  for (const fault of plan.faults) {
    clock.after(fault.atMs, () => applyFault(cluster, fault, heard))
    endMs = Math.max(endMs, fault.atMs + fault.lengthMs)
  }
  await clock.advance(endMs + 1)
  cluster.auditor.note('faults are over')
  await cluster.settle(boundMs)
  for (const journey of cluster.router.journeys) auditJourney(cluster, journey)
  noteEnd(cluster)
  const { violations, transcript } = cluster.auditor
  const { journeys } = cluster.router
  const restores = history === undefined ? [] : journeys.flatMap(restoreOf)
  return { violations, transcript, endings: [...journeys.map(endingOf), ...restores] }
}

/** The plan's shape, as far as the manifest allows it. */
function shapeOf({ factory }: SimulationTarget, { shape }: SimulationPlan) {
  const { tensorParallel, supportsDifferentBlockSizes, isBidirectional, supportsDifferentLayouts } =
    factory.capabilities
  const mapped = tensorParallel === 'mapped' ? shape.mapped : null
  const tpSize = tensorParallel === 'single' ? 1 : shape.tpSize
  const blockTokens = supportsDifferentBlockSizes ? shape.consumerBlockTokens : defaultBlockTokens
  const hasTurns = isBidirectional && shape.hasTurns
  const layouts = supportsDifferentLayouts === true ? shape.layouts : null
  const [ofProducer, ofConsumer] = [layouts?.producer, layouts?.consumer].map((layout) =>
    layout === undefined ? {} : { layout },
  )
  if (mapped === null) {
    // One head has no order.
    const heads = layouts === null ? {} : { kvHeadCount: 2 * tpSize }
    const consumer = { blockTokens, ...ofConsumer }
    return { ranks: { tpSize, ...heads }, producer: { ...ofProducer }, consumer, hasTurns }
  }
  const { producerTpSize, consumerTpSize, layout } = mapped
  return {
    // Together their ranks hold the same heads.
    ranks: { kvHeadCount: Math.max(producerTpSize, consumerTpSize), layout },
    producer: { tpSize: producerTpSize, ...ofProducer },
    consumer: { tpSize: consumerTpSize, blockTokens, ...ofConsumer },
    hasTurns,
  }
}

function start(
  cluster: Cluster,
  { job, abort, repeatAt }: PlannedJob,
  isConversation: boolean,
): void {
  const { clock } = cluster.world
  const journey = cluster.router.serve(job)
  if (isConversation) clock.after(thinkMs, () => goOn(cluster, journey))
  if (repeatAt !== null) {
    clock.after(repeatAt.afterMs, () => {
      if (journey.handoff === null) return
      cluster.router.repeat(journey, repeatAt.consumer, `${job.id}-again`)
    })
  }
  if (abort === null) return
  clock.after(abort.afterMs, () => {
    const isProducer = abort.side === 'producer'
    const request = isProducer ? journey.producer : journey.consumer
    const engine = isProducer ? journey.producerEngine : journey.consumerEngine
    if (request !== null && engine !== null) engine.abort(request.id)
  })
}

/** The next turn, if the last one is over and left something behind. */
function goOn({ router }: Cluster, { job, consumer, outcome }: Journey): void {
  const kept = consumer?.returnedParams ?? null
  if (outcome !== 'done' || kept === null) return
  router.serve({
    ...job,
    id: `${job.id}-next`,
    promptTokenCount: job.promptTokenCount + (job.outputTokenCount ?? 1) + addedTokenCount,
    producerParams: JSON.parse(JSON.stringify(kept)) as KvTransferParams,
  })
}

/** S4, which no single engine can see. */
function auditJourney(cluster: Cluster, { consumer, producerEngine, job }: Journey): void {
  if (consumer === null || !consumer.hasLoaded || consumer.loadError !== null) return
  const killedAtMs = producerEngine?.killedAtMs ?? null
  if (killedAtMs !== null && killedAtMs < consumer.arrivedAtMs) {
    cluster.auditor.violate('S4', `${job.id} was loaded from a life that had ended before`)
  }
}

/** Small differences end up in counts: they make two transcripts differ that look alike. */
function noteEnd({ auditor, lives }: Cluster): void {
  for (const { host } of lives) {
    const counters = host.ranks.map(({ agent }) => agent.counters())
    auditor.note(`${host.incarnation} ${JSON.stringify(counters)}`)
  }
}

function endingOf({ consumer }: Journey): string {
  if (consumer?.hasLoaded !== true) return 'computed'
  return consumer.loadError ?? 'loaded'
}

function restoreOf({ producer }: Journey): string[] {
  if (producer?.hasLoaded !== true) return []
  return [producer.loadError === null ? 'restored' : `restore: ${producer.loadError}`]
}
