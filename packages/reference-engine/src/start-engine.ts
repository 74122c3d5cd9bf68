/**
 * Starts one engine: configuration, core (on its own thread over NIXL, or inline over a fabric that the
 * caller gives), HTTP. And ends it in the reverse order, within a deadline.
 */
import type { Clock, Logger, PeerIdentity, SideChannel } from '@kvferry/connector-api'
import {
  createLogger,
  createSystemClock,
  createSystemRandom,
  type LogLevel,
} from '@kvferry/runtime'
import type { FastifyInstance } from 'fastify'
import type { CoreClient, CoreConfig } from './core/core-messages.ts'
import { startInlineCore } from './core/inline-core.ts'
import { createMemoryPorts, type TransferFabric } from './core/memory-ports.ts'
import { startWorkerCore } from './core/worker-core.ts'
import { configError } from './config-error.ts'
import { resolveCoreConfig, type EngineSettingOptions } from './engine-options.ts'
import { OpenRequests } from './http/open-requests.ts'
import { createServer } from './http/server.ts'
import { engineLimits } from './limits.ts'

export interface EngineOptions extends EngineSettingOptions {
  /** HTTP. Default 127.0.0.1 and any free port. */
  readonly host?: string
  readonly port?: number
  /** `worker` (default): own thread, over NIXL. `inline`: this thread, over `fabric`. */
  readonly core?: 'worker' | 'inline'
  /** Needed by, and only allowed with, `core: 'inline'`. */
  readonly fabric?: TransferFabric
  /** Inline only. Default: TCP. */
  readonly createSideChannel?: (identity: PeerIdentity) => Promise<SideChannel>
  readonly debugEndpoints?: boolean
  /** Requests that may be open at once; more get 429. */
  readonly maxOpenRequests?: number
  readonly logLevel?: LogLevel
  readonly logger?: Logger
  /** The core broke down; the engine answers 503 from now on and should be closed. */
  readonly onFatal?: (error: Error) => void
}

export interface RunningEngine {
  readonly url: string
  readonly engineId: string
  /**
   * Lets open requests and leases end, aborts what is left, releases everything. `deadlineMs` is for all of
   * it, from the call to the end. Idempotent.
   */
  close(options?: { readonly deadlineMs?: number }): Promise<void>
}

/**
 * @throws ConnectorError ERR_KV_CONFIG, ERR_KV_UNSUPPORTED, ERR_KV_CONNECTOR_NOT_INSTALLED,
 *   ERR_NIXL_UNAVAILABLE, ERR_NIXL, ERR_KV_LIMIT, ERR_KV_DEADLINE. An address that can't be bound is
 *   ERR_KV_CONFIG.
 */
export async function startEngine(options: EngineOptions = {}): Promise<RunningEngine> {
  const random = createSystemRandom()
  const randomHex = (byteCount: number) => Buffer.from(random.bytes(byteCount)).toString('hex')
  const config = resolveCoreConfig(options, randomHex(8))
  const logLevel = options.logLevel ?? 'info'
  const logger = options.logger ?? createLogger({ name: config.engineId, level: logLevel })
  const clock = createSystemClock()
  const core = await startCore(options, config, { logger, logLevel, clock })
  const requests = new OpenRequests(core, {
    max: options.maxOpenRequests ?? engineLimits.openRequestCountMax,
    onFatal: (error) => {
      logger.error('the engine core ended', { error: error.stack ?? error.message })
      options.onFatal?.(error)
    },
  })
  const app = createServer({
    core,
    requests,
    clock,
    logger,
    maxModelLen: config.settings.maxModelLen,
    hasDebugEndpoints: options.debugEndpoints ?? false,
    randomHex,
  })
  let closing: Promise<void> | null = null
  const close: RunningEngine['close'] = (closeOptions) => {
    const deadlineMs = closeOptions?.deadlineMs ?? engineLimits.shutdownDeadlineMs
    closing ??= closeAll({ app, core, requests, clock, deadlineMs })
    return closing
  }
  try {
    const url = await listen(app, options.host ?? '127.0.0.1', options.port ?? 0)
    logger.info('engine ready', { url, role: config.settings.role, model: core.peer.model })
    return { url, engineId: config.engineId, close }
  } catch (error) {
    await close({ deadlineMs: 0 })
    throw error
  }
}

async function listen(app: FastifyInstance, host: string, port: number): Promise<string> {
  try {
    return await app.listen({ host, port })
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'EADDRINUSE' || code === 'EACCES') {
      throw configError('port', `${port}`, `choose another port, or 0 for any free one (${code})`)
    }
    const isAddress = code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND' || code === 'EAI_AGAIN'
    if (isAddress)
      throw configError('host', `"${host}"`, `use an address of this machine (${code})`)
    throw error
  }
}

async function startCore(
  options: EngineOptions,
  config: CoreConfig,
  parts: { readonly logger: Logger; readonly logLevel: LogLevel; readonly clock: Clock },
): Promise<CoreClient> {
  const { createSideChannel, fabric } = options
  if ((options.core ?? 'worker') === 'worker') {
    if (fabric !== undefined || createSideChannel !== undefined) {
      throw configError('core', 'worker', 'give a fabric or side channel to core inline only')
    }
    return startWorkerCore({ config, logLevel: parts.logLevel, clock: parts.clock })
  }
  if (fabric === undefined) throw configError('fabric', 'missing', 'core inline needs one')
  const ports = await createMemoryPorts(config, {
    fabric,
    logger: parts.logger,
    ...(createSideChannel === undefined ? {} : { createSideChannel }),
  })
  return startInlineCore(ports)
}

async function closeAll(parts: {
  readonly app: FastifyInstance
  readonly core: CoreClient
  readonly requests: OpenRequests
  readonly clock: Clock
  readonly deadlineMs: number
}): Promise<void> {
  const { app, clock, core, deadlineMs, requests } = parts
  const startedAt = clock.now()
  requests.beginEnd()
  await core.close({ deadlineMs })
  // All answers are written; a caller that doesn't read them must not keep the engine alive.
  const leftMs = Math.max(engineLimits.closeGraceMs, deadlineMs - (clock.now() - startedAt))
  const timer = clock.after(leftMs, () => app.server.closeAllConnections())
  await app.close()
  timer.stop()
}
