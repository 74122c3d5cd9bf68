/**
 * `staging: snapshot`: before anything of a finished prompt may be read, all of it is copied, and consumers have
 * the copy. It is what direct handoff is compared with. Copies are made one after the other; block `b`
 * of the cache has its place as block `b` of the store, and stays the request's until its ticket ends. Owned
 * by worker.ts.
 */
import type {
  AnyConnectorError,
  BlockTableHandle,
  KvCacheLayout,
  WorkerComponents,
} from '@kvferry/connector-api'
import {
  HostStaging,
  deregisterCaches,
  registerCaches,
  type KvRegistration,
} from '@kvferry/connector-api/protocol'

export class SnapshotStore {
  readonly #components: WorkerComponents
  readonly #staging: HostStaging
  readonly #registration: KvRegistration

  private constructor(
    components: WorkerComponents,
    staging: HostStaging,
    registration: KvRegistration,
  ) {
    this.#components = components
    this.#staging = staging
    this.#registration = registration
  }

  /**
   * As large as the cache. The agent's metadata must be taken afterwards.
   * @throws ConnectorError ERR_KV_UNSUPPORTED (no allocator, no kernels), ERR_KV_LIMIT (no memory), ERR_NIXL.
   */
  static async open(components: WorkerComponents, caches: KvCacheLayout): Promise<SnapshotStore> {
    const staging = new HostStaging(components, caches)
    try {
      const registration = await registerCaches(components.agent, staging.caches)
      return new SnapshotStore(components, staging, registration)
    } catch (cause) {
      await staging.close()
      throw cause
    }
  }

  get caches(): KvCacheLayout {
    return this.#staging.caches
  }

  get table(): BlockTableHandle {
    return this.#registration.table
  }

  /** Resolves when all of them are there: null, or why they never will be. */
  publish(blockIds: Uint32Array): Promise<AnyConnectorError | null> {
    return this.#staging.save(blockIds)
  }

  /** What a WRITE still reads stays registered and allocated, as it must. */
  async close(): Promise<void> {
    const { agent, logger } = this.#components
    const failures = await deregisterCaches(agent, this.#registration)
    for (const failure of failures) logger.warn(`at shutdown: ${failure}`)
    if (failures.length === 0) await this.#staging.close()
  }
}
