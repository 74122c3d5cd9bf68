/**
 * What a clause works with: clusters of the connector under test, and the ways in which most clauses use
 * them. A clause opens its own worlds; nothing of one reaches another.
 */
import type { ConnectorCapabilities } from '../../capabilities.ts'
import type { KvTransferParams } from '../../connector.ts'
import { Cluster } from '../../testing/cluster/cluster.ts'
import type { ClusterOptions } from '../../testing/cluster/cluster.ts'
import type { Job, Journey } from '../../testing/cluster/cluster-router.ts'
import { slowFabric } from '../../testing/cluster/world.ts'
import { assert } from '../agent/expect.ts'
import type { ConnectorTarget } from '../connector-target.ts'

/** Moments of one story at which it is disturbed, spread over its whole course. */
const momentCountMax = 40
/** Engines that are told to go on stepping do so this often: leases are long, and each step costs. */
const idleStepMs = 250

export class ConnectorContext {
  readonly target: Required<ConnectorTarget>
  readonly capabilities: ConnectorCapabilities
  #jobCount = 0

  constructor(target: Required<ConnectorTarget>) {
    this.target = target
    this.capabilities = target.factory.capabilities
  }

  open(options: Partial<ClusterOptions> = {}): Promise<Cluster> {
    const { factory, path, options: connectorOptions } = this.target
    return Cluster.open({
      ...{ factory, path },
      ...options,
      engines: { options: connectorOptions, idleStepMs, ...options.engines },
    })
  }

  /** The same, slow enough that transfers are caught in the middle. */
  openSlow(options: Partial<ClusterOptions> = {}): Promise<Cluster> {
    return this.open({ times: slowFabric, ...options })
  }

  job(options: Partial<Job> = {}): Job {
    this.#jobCount += 1
    return {
      id: `r${this.#jobCount}`,
      prompt: this.#jobCount,
      promptTokenCount: 30,
      producer: 'p0',
      consumer: 'd0',
      ...options,
    }
  }

  serve(cluster: Cluster, options: Partial<Job> = {}): Journey {
    return cluster.router.serve(this.job(options))
  }

  /** Every request has ended, every block is back, and no rule was broken. */
  async settle(cluster: Cluster, boundMs = this.target.outcomeBoundMs): Promise<void> {
    await cluster.settle(boundMs)
    cluster.auditor.assertClean()
  }

  /** Runs until `condition`; it must come true. */
  async until(cluster: Cluster, condition: () => boolean, boundMs?: number): Promise<void> {
    const bound = boundMs ?? this.target.outcomeBoundMs
    const isMet = await cluster.world.clock.runUntil(condition, bound)
    assert.ok(isMet, `did not come true within ${bound} ms: ${condition.toString()}`)
  }

  /** Serves one job to its end, with its bytes loaded, not computed. */
  async serveWell(cluster: Cluster, options: Partial<Job> = {}): Promise<Journey> {
    const journey = this.serve(cluster, options)
    await this.until(cluster, () => journey.outcome !== 'open')
    this.assertLoaded(journey)
    return journey
  }

  assertLoaded(journey: Journey): void {
    const { job, outcome, consumer } = journey
    assert.equal(outcome, 'done', `${job.id} is ${outcome}`)
    assert.equal(consumer!.loadError, null, `${job.id}: load error`)
    assert.ok(consumer!.externalTokenCount > 0, `${job.id} was computed, not loaded`)
  }

  /** It was served, but not with another engine's bytes. */
  assertNotLoaded(journey: Journey): void {
    const { job, outcome, consumer } = journey
    assert.equal(outcome, 'done', `${job.id} is ${outcome}`)
    const isLoaded = consumer!.externalTokenCount > 0 && consumer!.loadError === null
    assert.ok(!isLoaded, `${job.id} was loaded`)
  }

  /** What the router would hand to the consumer, while the consumer has not come. */
  async handoff(cluster: Cluster, options: Partial<Job> = {}): Promise<Journey> {
    const journey = this.serve(cluster, { consumer: 'nobody', ...options })
    await this.until(cluster, () => journey.producer?.status === 'ended')
    const { handoff } = journey
    assert.ok(handoff !== null, 'the producer hands nothing over')
    return journey
  }

  /** The consumer's side alone, with these params. */
  consume(cluster: Cluster, params: KvTransferParams | null, options: Partial<Job> = {}): Journey {
    const { id, prompt, promptTokenCount, consumer, outputTokenCount = 2 } = this.job(options)
    const journey: Journey = {
      job: this.job({ ...options, id }),
      producer: null,
      producerEngine: null,
      consumer: null,
      consumerEngine: cluster.engine(consumer),
      handoff: params,
      outcome: 'open',
    }
    journey.consumer = cluster.engine(consumer).submit({
      id: `${consumer}/${id}`,
      prompt,
      promptTokenCount,
      outputTokenCount,
      params,
      onEnd: ({ finishReason }) => {
        journey.outcome = finishReason === 'length-capped' ? 'done' : 'undone'
      },
    })
    return journey
  }

  /** Transfers without final status that an engine posted. */
  openTransfers(cluster: Cluster): number {
    return cluster.living
      .flatMap(({ host }) => host.ranks)
      .reduce((count, { agent }) => count + agent.counters().transfersOpen, 0)
  }

  async untilTransferring(cluster: Cluster): Promise<void> {
    await this.until(cluster, () => this.openTransfers(cluster) > 0)
    await cluster.world.clock.advance(0.5)
    assert.ok(this.openTransfers(cluster) > 0, 'the transfer is over already')
  }

  /**
   * Plays one story again and again: a job on a fresh cluster, disturbed at another moment of its course
   * each time (after so many timers), then settled and audited.
   */
  async atEveryMoment(
    disturb: (cluster: Cluster, journey: Journey) => void,
    options: Partial<ClusterOptions> & {
      readonly boundMs?: number
      readonly judge?: (cluster: Cluster, journey: Journey) => void
    } = {},
  ): Promise<void> {
    const { boundMs, judge, ...clusterOptions } = options
    const length = await this.#lengthOfStory(clusterOptions)
    const stride = Math.max(1, Math.floor(length / momentCountMax))
    for (let moment = 0; moment < length; moment += stride) {
      const cluster = await this.openSlow({ ...clusterOptions, seed: 1 })
      const journey = this.serve(cluster, { prompt: 1 })
      let left = moment
      await cluster.world.clock.runUntil(() => left-- <= 0, this.target.outcomeBoundMs)
      cluster.auditor.note(`the disturbance, at moment ${moment}`)
      try {
        disturb(cluster, journey)
        await this.settle(cluster, boundMs)
        judge?.(cluster, journey)
      } catch (cause) {
        const story = cluster.auditor.transcript.join('\n')
        const { message } = cause as Error
        assert.fail(`disturbed at moment ${moment} of ${length}: ${message}\n${story}`)
      }
    }
  }

  async #lengthOfStory(options: Partial<ClusterOptions>): Promise<number> {
    const cluster = await this.openSlow({ ...options, seed: 1 })
    const journey = this.serve(cluster, { prompt: 1 })
    let count = 0
    await cluster.world.clock.runUntil(() => {
      count += 1
      return journey.outcome !== 'open' && cluster.isQuiet
    }, this.target.outcomeBoundMs)
    return count
  }
}
