/**
 * The engine's HTTP face: routes, limits, error answers. Runs on the main thread; knows the core only as
 * `CoreClient`, so a step never waits for a slow caller.
 */
import { fastify, type FastifyInstance, type FastifyReply } from 'fastify'
import type { Clock, Logger } from '@kvferry/connector-api'
import { createClientErrorHandler } from '@kvferry/runtime'
import type { CoreClient } from '../core/core-messages.ts'
import { engineLimits } from '../limits.ts'
import { parseChatRequest } from './chat-request.ts'
import { chatForm, completionForm } from './completion-answer.ts'
import { handleCompletion, type Endpoint } from './completion-handler.ts'
import { parseCompletionRequest } from './completion-request.ts'
import { endWatch } from './delivery.ts'
import { describeError, HttpError, toHttpError } from './http-error.ts'
import type { OpenRequests } from './open-requests.ts'
import { handleRelease } from './release-handler.ts'

const endpoints: Readonly<Record<string, Endpoint>> = {
  '/v1/completions': { form: completionForm, parse: parseCompletionRequest },
  '/v1/chat/completions': { form: chatForm, parse: parseChatRequest },
}

export interface ServerParts {
  readonly core: CoreClient
  readonly requests: OpenRequests
  readonly clock: Clock
  readonly logger: Logger
  readonly maxModelLen: number
  readonly hasDebugEndpoints: boolean
  randomHex(byteCount: number): string
}

/** The application, not yet listening. */
export function createServer(parts: ServerParts): FastifyInstance {
  const app = fastify({
    bodyLimit: engineLimits.bodySizeBytesMax,
    requestTimeout: engineLimits.requestBodyTimeoutMs,
    forceCloseConnections: 'idle',
    logger: false,
    frameworkErrors: (error, _request, reply) => void sendFailure(reply, toHttpError(error)),
    clientErrorHandler: createClientErrorHandler(({ status, message }) =>
      describeError(new HttpError(status, 'ERR_KV_MESSAGE_INVALID', message)),
    ),
  })
  app.server.maxConnections = engineLimits.connectionCountMax
  app.addHook('onRequest', (request, _reply, done) => {
    endWatch(request.raw.socket)
    done()
  })
  app.setErrorHandler((error, request, reply) => {
    const failure = toHttpError(error)
    if (failure.code === 'internal_error') {
      parts.logger.error('request failed', { url: request.url, error: String(error) })
    }
    void sendFailure(reply, failure)
  })
  app.setNotFoundHandler((request, reply) => {
    const message = `${request.method} ${request.url} does not exist`
    void reply.status(404).send(describeError(new HttpError(404, 'not_found', message)))
  })
  addOpenAiRoutes(app, parts)
  addStateRoutes(app, parts)
  if (parts.hasDebugEndpoints) app.get('/kvferry/v1/debug', () => parts.core.debug())
  return app
}

/** What a busy or ending engine refuses may be tried again, there or elsewhere. */
function sendFailure(reply: FastifyReply, failure: HttpError): FastifyReply {
  const isRetryable = failure.status === 429 || failure.status === 503
  if (isRetryable) void reply.header('retry-after', String(engineLimits.retryAfterSeconds))
  return reply.status(failure.status).send(describeError(failure))
}

function addOpenAiRoutes(app: FastifyInstance, parts: ServerParts): void {
  const { clock, maxModelLen, randomHex, requests } = parts
  const { model } = parts.core.peer
  const completion = { requests, clock, randomHex, limits: { model, maxModelLen } }
  for (const [path, endpoint] of Object.entries(endpoints)) {
    app.post(path, (request, reply) => handleCompletion(completion, endpoint, request, reply))
  }
  if (parts.core.peer.connector !== null) {
    app.post('/kvferry/v1/release', (request, reply) => handleRelease(completion, request, reply))
  }
  app.get('/v1/models', () => ({
    object: 'list',
    data: [
      { id: model, object: 'model', created: 0, owned_by: 'kvferry', max_model_len: maxModelLen },
    ],
  }))
}

function addStateRoutes(app: FastifyInstance, parts: ServerParts): void {
  const { core, requests } = parts
  app.get('/health', (_request, reply) => {
    const isHealthy = requests.state !== 'failed'
    return reply.status(isHealthy ? 200 : 503).send({ status: isHealthy ? 'ok' : 'failed' })
  })
  app.get('/ready', (_request, reply) => {
    const isReady = requests.state === 'serving'
    return reply.status(isReady ? 200 : 503).send({ status: requests.state })
  })
  app.get('/metrics', async (_request, reply) => {
    const text = await core.metricsText()
    return reply.type('text/plain; version=0.0.4; charset=utf-8').send(text)
  })
  // With the state, so that a router stops sending to an engine that ends before it is gone.
  app.get('/kvferry/v1/peer', () => ({ ...core.peer, state: requests.state }))
  app.get('/kvferry/v1/stats', () => core.stats())
}
