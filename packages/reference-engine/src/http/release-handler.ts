/**
 * `POST /kvferry/v1/release`: a handoff that nobody will use. The router sends it to a decode engine when the
 * request ended between its two legs; without it the prefill engine would keep the blocks to the end of the
 * lease. The engine treats it as a request that was given up before it began, so that the connector's own
 * rules hold: the handoff must be signed by its producer, and the release goes over the association with a
 * configured peer. Nothing is computed and no block is taken.
 */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import { engineLimits } from '../limits.ts'
import type { CompletionParts } from './completion-handler.ts'
import { checkParams, parseBody } from './request-body.ts'

const bodySchema = z.strictObject({
  kv_transfer_params: z.looseObject({
    remote_num_tokens: z.int().min(1).max(engineLimits.maxModelLenMax),
    remote_prompt_digest: z.string().regex(/^[0-9a-f]{64}$/, 'must be 64 hexadecimal digits'),
  }),
})

/** Answers 202: that the producer heard it is not known, nor needed. @throws HttpError 400, 429, 503. */
export function handleRelease(
  { clock, randomHex, requests }: CompletionParts,
  request: FastifyRequest,
  reply: FastifyReply,
): FastifyReply {
  const { kv_transfer_params: params } = parseBody(bodySchema, request.body)
  checkParams(params)
  requests.release({
    requestId: `release-${randomHex(16)}`,
    // A connector compares length and digest with the handoff's; no token of it is ever computed.
    promptTokens: new Uint8Array(params.remote_num_tokens),
    promptDigest: Uint8Array.from(Buffer.from(params.remote_prompt_digest, 'hex')),
    maxTokens: 1,
    kvTransferParams: params,
    receivedAtMs: clock.now(),
  })
  return reply.status(202).send({ status: 'released' })
}
