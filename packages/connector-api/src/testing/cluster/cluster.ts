/**
 * N producers and M consumers of one connector in one simulated world, with a router and an auditor. Engines
 * are known by name; each start under a name is a new life with the same port, so that what was meant for
 * the old one reaches the new one.
 */
import type { ConnectorFactory } from '../../connector.ts'
import { Auditor } from './auditor.ts'
import { ClusterRouter } from './cluster-router.ts'
import { createSkewedClock } from './skewed-clock.ts'
import type { ClockSkew } from './skewed-clock.ts'
import { ServingEngine } from './serving-engine.ts'
import type { ServingOptions } from './serving-engine.ts'
import type { TransferPath } from '../../config.ts'
import { createWorld } from './world.ts'
import type { World, WorldTimes } from './world.ts'

const firstPort = 7_000
/** Ports of one engine: one per rank. */
const portsPerEngine = 16

export type ClusterEngineOptions = Partial<Omit<ServingOptions, 'engineId' | 'incarnation'>>

export interface ClusterOptions {
  readonly factory: ConnectorFactory
  readonly seed?: number
  readonly times?: WorldTimes
  readonly path?: TransferPath
  readonly producerCount?: number
  readonly consumerCount?: number
  /** For every engine. */
  readonly engines?: ClusterEngineOptions
  /** For single ones, by name (`p0`, `d1`); wins. */
  readonly engine?: Readonly<Record<string, ClusterEngineOptions>>
  readonly skew?: Readonly<Record<string, ClockSkew>>
}

export class Cluster {
  readonly world: World
  readonly auditor: Auditor
  readonly router: ClusterRouter
  /** The latest life under each name. */
  readonly engines = new Map<string, ServingEngine>()
  /** Every life there was. */
  readonly lives: ServingEngine[] = []
  readonly names: readonly string[]
  readonly #options: ClusterOptions

  static async open(options: ClusterOptions): Promise<Cluster> {
    const cluster = new Cluster(options)
    for (const name of cluster.names) await cluster.start(name)
    return cluster
  }

  constructor(options: ClusterOptions) {
    this.#options = options
    this.world = createWorld(options)
    this.auditor = new Auditor(this.world.clock)
    this.names = [
      ...named('p', options.producerCount ?? 1),
      ...named('d', options.consumerCount ?? 1),
    ]
    this.router = new ClusterRouter({
      find: (name) => this.engines.get(name),
      clock: this.world.clock,
      auditor: this.auditor,
      dispatch: options.factory.capabilities.dispatch,
    })
  }

  /** The engine of that name. @throws RangeError when none was started. */
  engine(name: string): ServingEngine {
    const engine = this.engines.get(name)
    if (engine === undefined) throw new RangeError(`no engine ${name}`)
    return engine
  }

  /** A new life under that name; the former one must be dead. */
  async start(name: string, options: ClusterEngineOptions = {}): Promise<ServingEngine> {
    const engine = this.#create(name, options)
    await this.world.clock.wait(engine.host.register(), 1_000)
    this.engines.set(name, engine)
    return engine
  }

  /** As `start`, from inside a timer: it is there once it has registered. */
  startSoon(name: string, options: ClusterEngineOptions = {}): void {
    const engine = this.#create(name, options)
    engine.host.register().then(
      () => this.engines.set(name, engine),
      (error: Error) => this.auditor.violate('hook', `${name} does not start: ${error.message}`),
    )
  }

  #create(name: string, options: ClusterEngineOptions = {}): ServingEngine {
    const life = this.lives.filter((engine) => engine.name === name).length + 1
    const incarnation = `${name}-${life}`
    const skew = this.#options.skew?.[name]
    const engine = new ServingEngine(this.world, this.auditor, {
      engineId: name,
      incarnation,
      port: firstPort + portsPerEngine * this.names.indexOf(name),
      ...(skew === undefined ? {} : { clock: createSkewedClock(this.world.clock, skew) }),
      ...this.#options.engines,
      ...this.#options.engine?.[name],
      ...options,
    })
    this.lives.push(engine)
    this.auditor.note(`${name} starts as ${incarnation}`)
    return engine
  }

  kill(name: string): void {
    this.auditor.note(`${name} is killed`)
    this.engine(name).kill()
  }

  get living(): ServingEngine[] {
    return [...this.engines.values()].filter(({ isHalted }) => !isHalted)
  }

  /** Nothing is under way: every request of a living engine has ended and every block is back. */
  get isQuiet(): boolean {
    return (
      !this.router.isBusy &&
      this.living.every(
        ({ requests, heldBlockCount, host }) =>
          heldBlockCount === 0 &&
          !host.scheduler.hasPendingBlockFrees() &&
          !host.scheduler.hasPendingPushWork() &&
          [...requests.values()].every(({ status }) => status === 'ended'),
      )
    )
  }

  /**
   * Lets time pass until the cluster is quiet, and audits it. What is not over within `boundMs` is a
   * violation: of V1 for a request, of V2 for blocks that ended requests left behind.
   */
  async settle(boundMs: number): Promise<void> {
    await this.world.clock.runUntil(() => this.isQuiet, boundMs)
    for (const engine of this.living) this.#auditEngine(engine)
  }

  #auditEngine({ name, requests, host, pool, heldBlockCount }: ServingEngine): void {
    for (const { id, status, awaited } of requests.values()) {
      if (status !== 'ended') this.auditor.violate('V1', `${name}: ${id} is still ${status}`)
      else if (awaited.size > 0) {
        this.auditor.violate('V2', `${name}: ${id} ended and awaits ${[...awaited].join()}`)
      }
    }
    const books = pool.audit()
    if (books !== null) this.auditor.violate('S3', `${name}: ${books}`)
    if (heldBlockCount > 0) this.auditor.violate('S3', `${name}: ${heldBlockCount} blocks are held`)
    if (host.scheduler.hasPendingBlockFrees()) {
      this.auditor.violate('V2', `${name}: the connector says that frees are pending`)
    }
  }
}

const named = (prefix: string, count: number): string[] =>
  Array.from({ length: count }, (_, index) => `${prefix}${index}`)
