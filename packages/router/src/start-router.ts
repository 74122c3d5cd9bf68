/**
 * Assembles a router: engines, pollers, server; and takes it down in the right order. The only file that
 * knows all parts. Called by the command line, by tests and by the harness.
 */
import type { AddressInfo } from 'node:net'
import type { Clock, Logger, Random } from '@kvferry/connector-api'
import { configError, createLogger, createSystemClock, createSystemRandom } from '@kvferry/runtime'
import { CompletionHandler } from './completion-handler.ts'
import { concurrentDispatch } from './concurrent-dispatch.ts'
import { createDispatcher } from './dispatch.ts'
import { EngineClient } from './engine-client.ts'
import { EnginePoller } from './engine-poller.ts'
import { Engine } from './engine.ts'
import { Fleet } from './fleet.ts'
import type { DeclaredPrefill } from './handoff.ts'
import { parseRouterConfig, type ParsedRouterConfig, type RouterConfig } from './options.ts'
import { policies } from './policy.ts'
import type { Leg } from './router-error.ts'
import { createRouterMetrics } from './router-metrics.ts'
import { sequentialDispatch } from './sequential-dispatch.ts'
import { createServer } from './server.ts'

/** Ports, for tests; production leaves them out. */
export interface RouterPorts {
  readonly clock?: Clock
  readonly random?: Random
  readonly logger?: Logger
}

export interface RunningRouter {
  /** `http://host:port`, with the port that was really bound. */
  readonly url: string
  /** Stops taking requests, lets running ones end within `deadlines.drainMs`, then ends them. Idempotent. */
  close(): Promise<void>
}

/**
 * Resolves when the router listens and every engine was looked at once (up or not: `/ready` tells).
 * @throws ConnectorError ERR_KV_CONFIG: a bad option, or an address that cannot be bound.
 */
export async function startRouter(
  config: RouterConfig,
  ports: RouterPorts = {},
): Promise<RunningRouter> {
  const parsed = parseRouterConfig(config)
  const clock = ports.clock ?? createSystemClock()
  const random = ports.random ?? createSystemRandom()
  const logger = ports.logger ?? createLogger({ name: 'kvferry-router', level: 'info' })

  const dispatcher = createDispatcher([sequentialDispatch, concurrentDispatch])
  const connect = (leg: Leg, url: string, index: number, declared: DeclaredPrefill = {}) => {
    const client = new EngineClient(url, { leg, clock, connectMs: parsed.deadlines.connectMs })
    return new Engine({ leg, index, client, declared })
  }
  const fleet = new Fleet({
    prefills: parsed.prefills.map(({ url, declared }, i) => connect('prefill', url, i, declared)),
    decodes: parsed.decodes.map((url, i) => connect('decode', url, i)),
    obstacle: (prefill) => dispatcher.obstacle(prefill),
    createPolicy: policies[parsed.policy],
  })
  const pollers = fleet.engines.map((engine) => createPoller(engine, parsed, { clock, logger }))
  const metrics = createRouterMetrics(fleet)
  const closing = new AbortController()
  const { deadlines } = parsed
  const handler = new CompletionHandler({
    fleet,
    dispatcher,
    deadlines,
    clock,
    random,
    logger,
    metrics,
  })
  const app = createServer({ handler, fleet, metrics, deadlines, closing: closing.signal })

  const closeEngines = async () => {
    closing.abort()
    await Promise.all(pollers.map((poller) => poller.close()))
    await Promise.all(fleet.engines.map(({ client }) => client.close()))
  }
  await Promise.all(pollers.map((poller) => poller.poll()))
  let url: string
  try {
    url = await listen(app, parsed)
  } catch (error) {
    await closeEngines()
    throw error
  }
  warnWhenExposed(parsed.host, logger)

  let closed: Promise<void> | null = null
  const close = async () => {
    const stopped = app.close()
    await handler.drain()
    app.server.closeAllConnections()
    await stopped
    await closeEngines()
  }
  return { url, close: () => (closed ??= close()) }
}

function createPoller(
  engine: Engine,
  { poll, deadlines, connector }: ParsedRouterConfig,
  { clock, logger }: { clock: Clock; logger: Logger },
): EnginePoller {
  return new EnginePoller({
    engine,
    clock,
    logger,
    intervals: poll,
    pollMs: deadlines.pollMs,
    declaredConnector: connector,
  })
}

async function listen(
  app: ReturnType<typeof createServer>,
  { host, port }: ParsedRouterConfig,
): Promise<string> {
  try {
    await app.listen({ host, port })
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    const isPort = code === 'EADDRINUSE' || code === 'EACCES'
    const remedy = isPort
      ? `choose another port, or 0 for any free one (${code})`
      : `use an address of this machine (${code ?? String(cause)})`
    const problem = { field: isPort ? 'port' : 'host', value: `${host}:${port}`, remedy }
    throw configError([problem], { cause })
  }
  const address = app.server.address() as AddressInfo
  const shownHost = address.family === 'IPv6' ? `[${address.address}]` : address.address
  return `http://${shownHost}:${address.port}`
}

function warnWhenExposed(host: string, logger: Logger): void {
  const isLoopback = host === 'localhost' || host === '::1' || host.startsWith('127.')
  if (!isLoopback) {
    logger.warn('listening beyond this machine: the router has no authentication', { host })
  }
}
