/**
 * From the registration of the caches to the end: what a worker half does around its parts, whatever they
 * are. It starts nothing before the caches are known, leaves nothing registered when a start fails, and
 * closes once.
 */
import type { AgentListener, KvCacheLayout, WorkerComponents } from '../index.ts'
import { closed } from './failures.ts'
import { deregisterCaches, registerCaches, type KvRegistration } from './kv-registration.ts'

export interface WorkerLifeOptions<Parts> {
  readonly components: WorkerComponents
  readonly create: (
    caches: KvCacheLayout,
    registration: KvRegistration,
    agentMetadata: Uint8Array,
  ) => Parts
  readonly listenerOf: (parts: Parts) => AgentListener
  /** Ends what the parts have open, up to its own deadline. */
  readonly close: (parts: Parts) => Promise<void>
}

export class WorkerLife<Parts> {
  readonly #init: WorkerLifeOptions<Parts>
  #registering: Promise<Parts> | null = null
  #registration: KvRegistration | null = null
  #parts: Parts | null = null
  #shutdown: Promise<void> | null = null

  constructor(init: WorkerLifeOptions<Parts>) {
    this.#init = init
  }

  /** Null before the caches are registered. */
  get parts(): Parts | null {
    return this.#parts
  }

  /** @throws TypeError before `register` has ended. */
  registered(): Parts {
    if (this.#parts === null) throw new TypeError('registerKvCaches comes first')
    return this.#parts
  }

  /** Called once. @throws as `registerCaches`; ConnectorError ERR_KV_CLOSED after `shutdown`. */
  register(caches: KvCacheLayout): Promise<Parts> {
    if (this.#registering !== null) throw new TypeError('registerKvCaches is called once')
    this.#registering = this.#register(caches)
    return this.#registering
  }

  /** Idempotent. */
  shutdown(): Promise<void> {
    this.#shutdown ??= this.#close()
    return this.#shutdown
  }

  async #register(caches: KvCacheLayout): Promise<Parts> {
    const { components, create, listenerOf } = this.#init
    const { agent } = components
    const registration = await registerCaches(agent, caches)
    let parts: Parts
    try {
      // Taken after the registration: metadata lists only regions that exist.
      const agentMetadata = await agent.localMetadata()
      if (this.#shutdown !== null) throw closed('connector')
      parts = create(caches, registration, agentMetadata)
    } catch (cause) {
      // `shutdown` knows nothing of it yet.
      await deregisterCaches(agent, registration)
      throw cause
    }
    this.#registration = registration
    this.#parts = parts
    agent.setListener(listenerOf(parts))
    return parts
  }

  async #close(): Promise<void> {
    // A registration under way ends first; its own error belongs to its caller.
    await this.#registering?.catch(() => undefined)
    if (this.#parts === null || this.#registration === null) return
    await this.#init.close(this.#parts)
    const { agent, logger } = this.#init.components
    const failures = await deregisterCaches(agent, this.#registration)
    for (const failure of failures) logger.warn(`at shutdown: ${failure}`)
  }
}
