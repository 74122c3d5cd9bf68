/**
 * A cluster in this process over the in-memory fabric: for machines without NIXL, and for tests of the
 * whole. Results are marked `agent: "memory"`, because one event loop does the work of four processes.
 */
import { createMemoryFabric } from '@kvferry/connector-api/testing'
import { silentLogger } from '@kvferry/connector-api'
import { startEngine } from '@kvferry/reference-engine'
import { startRouter } from '@kvferry/router'
import { createSystemClock, createSystemRandom } from '@kvferry/runtime'
import type { Cluster, ClusterEngine, ClusterSpec, StartCluster } from './cluster.ts'

interface Closable {
  close(): Promise<void>
}

type Fabric = ReturnType<typeof createMemoryFabric>

async function startInlineEngine(
  spec: ClusterSpec,
  fabric: Fabric,
  role: ClusterEngine['role'],
  onFatal: (error: Error) => void,
): Promise<Closable & ClusterEngine> {
  const { shape, configuration, prefixCaching } = spec
  const engine = await startEngine({
    core: 'inline',
    fabric,
    logger: silentLogger,
    onFatal,
    port: 0,
    role,
    ...(configuration
      ? {
          connector: configuration.connector,
          options: configuration.options,
          sideChannelPort: 0,
          ...(configuration.path && { path: configuration.path }),
        }
      : {}),
    engineId: role,
    model: shape.model,
    kvScale: shape.kvScale,
    blockSize: shape.blockTokens,
    numBlocks: shape.blockCount,
    ...(shape.blockOrder === undefined ? {} : { blockOrder: shape.blockOrder }),
    maxNumSeqs: shape.maxNumSeqs,
    maxModelLen: shape.maxModelLen,
    maxNumBatchedTokens: shape.maxNumBatchedTokens,
    timeScale: shape.timeScale,
    hooks: shape.hooks,
    prefixCaching,
  })
  return { role, url: engine.url, pid: null, close: () => engine.close() }
}

/** The maker of clusters that `compare` uses with `--agent memory`. */
export function memoryClusters(): StartCluster {
  return async (spec, signal) => {
    const fabric = createMemoryFabric({ clock: createSystemClock(), random: createSystemRandom() })
    const parts: Closable[] = []
    const close = async (): Promise<void> => {
      for (const part of parts.splice(0).reverse()) await part.close()
    }
    let onFatal: (error: Error) => void = () => {}
    const failed = new Promise<never>((_, reject) => {
      onFatal = reject
    })
    // Nobody may be racing against it yet, or any more.
    failed.catch(() => {})
    const start = async (role: ClusterEngine['role']): Promise<ClusterEngine> => {
      const engine = await startInlineEngine(spec, fabric, role, onFatal)
      parts.push(engine)
      return { role: engine.role, url: engine.url, pid: null }
    }
    const shared: Pick<Cluster, 'pids' | 'failed' | 'logTails' | 'close' | 'tokens'> = {
      tokens: 'bytes',
      pids: [],
      failed,
      logTails: () => '',
      close,
    }
    try {
      if (!spec.configuration) {
        const oracle = await start('both')
        return { ...shared, entryUrl: oracle.url, hasRouter: false, engines: [oracle] }
      }
      const engines = [await start('producer'), await start('consumer')]
      const [prefill, decode] = engines.map((engine) => [engine.url])
      const router = await startRouter(
        { prefill: prefill ?? [], decode: decode ?? [], port: 0 },
        { logger: silentLogger },
      )
      parts.push(router)
      signal.throwIfAborted()
      return { ...shared, entryUrl: router.url, hasRouter: true, engines }
    } catch (error) {
      await close()
      throw error
    }
  }
}
