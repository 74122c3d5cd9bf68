/**
 * The HTTP face: routes, body limit, and OpenAI's error shape for whatever the framework refuses before a
 * handler runs. Made by startRouter. The two completion routes belong to CompletionHandler; the rest is
 * answered here.
 */
import { fastify, type FastifyError, type FastifyInstance, type FastifyReply } from 'fastify'
import { bodyRefusal, createClientErrorHandler } from '@kvferry/runtime'
import { retryHeaders, type CompletionHandler } from './completion-handler.ts'
import type { Fleet } from './fleet.ts'
import { routerLimits, type Deadlines } from './limits.ts'
import { errorBody, RouterError } from './router-error.ts'
import type { RouterMetrics } from './router-metrics.ts'
import { upstreamError } from './upstream-error.ts'

export interface ServerOptions {
  readonly handler: CompletionHandler
  readonly fleet: Fleet
  readonly metrics: RouterMetrics
  readonly deadlines: Deadlines
  /** Aborted when the router closes. */
  readonly closing: AbortSignal
}

const completionPaths = ['/v1/completions', '/v1/chat/completions'] as const

export function createServer(options: ServerOptions): FastifyInstance {
  const { handler, fleet, metrics, deadlines } = options
  const app = fastify({
    logger: false,
    bodyLimit: routerLimits.requestSizeBytesMax,
    requestTimeout: deadlines.clientRequestMs,
    // Idle connections must not hold up a shutdown; busy ones are the handler's.
    forceCloseConnections: 'idle',
    return503OnClosing: false,
    frameworkErrors: (error, _request, reply: FastifyReply) => {
      void reply.code(400).send(errorBody(400, error.message, 'ERR_KV_MESSAGE_INVALID'))
    },
    clientErrorHandler: createClientErrorHandler(({ status, message }) =>
      errorBody(status, message, 'ERR_KV_MESSAGE_INVALID'),
    ),
  })
  app.removeContentTypeParser('text/plain')
  app.server.maxConnections = routerLimits.clientConnectionCountMax
  for (const path of completionPaths) {
    app.post(path, (request, reply) => handler.handle(path, request, reply))
  }
  app.get('/health', () => ({ status: 'ok' }))
  app.get('/ready', async (_request, reply) => {
    const { isReady, problems } = fleet.readiness()
    const isOpen = isReady && !handler.isDraining
    const all = handler.isDraining ? ['the router is shutting down', ...problems] : problems
    await reply.code(isOpen ? 200 : 503).send({ ready: isOpen, problems: all })
  })
  app.get('/metrics', async (_request, reply) => {
    await reply.type(metrics.contentType).send(await metrics.text())
  })
  app.get('/v1/models', async (_request, reply) => {
    const { status, text } = await readModels(options)
    await reply.code(status).type('application/json').send(text)
  })
  app.setNotFoundHandler(async (request, reply) => {
    const message = `no ${request.method} ${request.url.slice(0, 200)} here`
    await reply.code(404).send(errorBody(404, message, 'not_found'))
  })
  app.setErrorHandler(async (error: FastifyError, request, reply) => {
    if (error instanceof RouterError) {
      const retry = retryHeaders(error.status, null)
      await reply.code(error.status).headers(retry).send(error.body)
      return
    }
    const status = error.statusCode ?? 500
    const route = request.routeOptions.url ?? ''
    const isCompletion = (completionPaths as readonly string[]).includes(route)
    if (isCompletion) {
      metrics.requestEnd(status < 500 ? 'client-error' : 'internal', reply.elapsedTime)
    }
    const refusal = bodyRefusal(error, routerLimits.requestSizeBytesMax)
    const isClients = status < 500
    const message = isClients ? error.message : 'unexpected error in the router'
    const code = isClients ? 'ERR_KV_MESSAGE_INVALID' : 'internal_error'
    const body = errorBody(status, refusal?.message ?? message, refusal?.code ?? code)
    await reply.code(status).send(body)
  })
  return app
}

/** The model list of an engine that is up: decode first, since its name is what clients get answers from. */
async function readModels({ fleet, deadlines, closing }: ServerOptions) {
  const engine = [...fleet.decodes, ...fleet.prefills].find(({ peer }) => peer !== null)
  if (engine === undefined) {
    throw new RouterError({
      status: 503,
      code: 'ERR_KV_PEER_UNAVAILABLE',
      outcome: 'unavailable',
      message: `no engine can be asked for its models: ${fleet.readiness().problems.join('; ')}`,
    })
  }
  try {
    const limits = { deadlineMs: deadlines.pollMs, signal: closing }
    return await engine.client.getText('/v1/models', limits)
  } catch (error) {
    throw upstreamError(engine.leg, engine.url, error)
  }
}
