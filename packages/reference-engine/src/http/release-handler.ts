/**
 * `POST /kvferry/v1/release`: a handoff that nobody will use, or a transfer (push) that no decode engine took
 * on. The router sends it to a decode engine; without it the prefill engine would keep the blocks to the end
 * of the lease. The engine treats it as a request that was given up before it began, so that the connector's
 * own rules hold: a handoff must be signed by its producer, a transfer id or ticket is known to nobody but the
 * router and the engines, and the release goes over the association with a configured peer. Nothing is computed and
 * no block is taken.
 */
import { limits } from '@kvferry/connector-api'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import { engineLimits } from '../limits.ts'
import type { CompletionParts } from './completion-handler.ts'
import { bodySizeBytesOf, checkParams, parseBody } from './request-body.ts'

const tokenCount = z.int().min(1).max(engineLimits.maxModelLenMax)

const handoffSchema = z.strictObject({
  kv_transfer_params: z.looseObject({
    remote_num_tokens: tokenCount,
    remote_prompt_digest: z.string().regex(/^[0-9a-f]{64}$/, 'must be 64 hexadecimal digits'),
  }),
})

/** The producer goes by the ticket (xavier): what the prompt was it knows itself. */
const ticketSchema = z.strictObject({
  kv_transfer_params: z.looseObject({
    remote_num_tokens: tokenCount,
    remote_ticket: z.string().min(1).max(limits.idSizeBytesMax),
  }),
})

/** The producer goes by the id alone. */
const transferSchema = z.strictObject({
  kv_transfer_params: z.looseObject({ transfer_id: z.string().min(1).max(limits.idSizeBytesMax) }),
})

const has = (field: 'transfer_id' | 'remote_ticket', body: unknown): boolean =>
  z.object({ kv_transfer_params: z.object({ [field]: z.string() }) }).safeParse(body).success

/** What a connector is told of a prompt of which no token is ever computed. */
function promptOf(body: unknown) {
  const noDigest = new Uint8Array(limits.promptDigestSizeBytes)
  if (has('transfer_id', body)) {
    const { kv_transfer_params: params } = parseBody(transferSchema, body)
    return { params, tokenCount: 1, digest: noDigest }
  }
  if (has('remote_ticket', body)) {
    const { kv_transfer_params: params } = parseBody(ticketSchema, body)
    return { params, tokenCount: params.remote_num_tokens, digest: noDigest }
  }
  const { kv_transfer_params: params } = parseBody(handoffSchema, body)
  const digest = Uint8Array.from(Buffer.from(params.remote_prompt_digest, 'hex'))
  return { params, tokenCount: params.remote_num_tokens, digest }
}

/** Answers 202: that the producer heard it is not known, nor needed. @throws HttpError 400, 429, 503. */
export function handleRelease(
  { clock, randomHex, requests }: CompletionParts,
  request: FastifyRequest,
  reply: FastifyReply,
): FastifyReply {
  const { params, tokenCount, digest } = promptOf(request.body)
  checkParams(params, bodySizeBytesOf(request))
  requests.release({
    requestId: `release-${randomHex(16)}`,
    // A connector compares length and digest with a handoff's.
    promptTokens: new Uint8Array(tokenCount),
    promptDigest: digest,
    maxTokens: 1,
    kvTransferParams: params,
    receivedAtMs: clock.now(),
  })
  return reply.status(202).send({ status: 'released' })
}
