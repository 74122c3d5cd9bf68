/** What the serving engine knows of a request, and how a request may end. */
import { chainBlockKeys, type BlockKeys } from '../../block-keys.ts'
import type { ConnectorErrorCode } from '../../errors.ts'
import type { FinishReason, KvTransferParams, RequestView } from '../../connector.ts'
import { asRequestId } from '../../ids.ts'
import { digestTokens } from '../../prompt-digest.ts'
import { tokensOf } from './content.ts'

export interface RequestInit {
  readonly id: string
  /** Its tokens and their content (content.ts). */
  readonly prompt: number
  readonly promptTokenCount: number
  /** Tokens to generate; at least one. */
  readonly outputTokenCount: number
  readonly params: KvTransferParams | null
  /** Called once, after `requestFinished`. */
  readonly onEnd?: (request: ServedRequest) => void
}

export interface ServedRequest extends RequestInit {
  /** `loading`: its blocks are being filled by the connector. */
  status: 'waiting' | 'loading' | 'running' | 'ended'
  /** Of the world's clock. */
  readonly arrivedAtMs: number
  readonly promptDigest: Uint8Array
  /** Of its engine. */
  readonly blockTokens: number
  /** Empty until it gets some. */
  blocks: number[]
  /** Tokens whose KV is valid. */
  computedTokenCount: number
  /** Of them, those found in the prefix cache when it got its blocks. */
  hitTokenCount: number
  /** Taken from the connector. */
  externalTokenCount: number
  generatedTokenCount: number
  /** It has been through its load, well or not: it asks for no other. */
  hasLoaded: boolean
  loadError: ConnectorErrorCode | null
  finishReason: FinishReason | null
  returnedParams: KvTransferParams | null
  /** Nobody got them. */
  isAnswerLost: boolean
  /** Reports without which its blocks are not the engine's, though it ended. */
  awaited: Set<'sent' | 'received'>
}

export const createRequest = (
  init: RequestInit,
  arrivedAtMs: number,
  blockTokens: number,
): ServedRequest => ({
  ...init,
  arrivedAtMs,
  blockTokens,
  promptDigest: digestTokens(tokensOf(init.prompt, init.promptTokenCount)),
  status: 'waiting',
  blocks: [],
  computedTokenCount: 0,
  hitTokenCount: 0,
  externalTokenCount: 0,
  generatedTokenCount: 0,
  hasLoaded: false,
  loadError: null,
  finishReason: null,
  returnedParams: null,
  isAnswerLost: false,
  awaited: new Set(),
})

/** Prompt and generated tokens; the last generated one has no KV yet. */
export const tokenCountOf = (request: ServedRequest): number =>
  request.promptTokenCount + request.generatedTokenCount

/** Keys of a prompt's first `count` tokens, as every engine of the toy model makes them. */
export const toyBlockKeys = (prompt: number, count: number, blockTokens: number): BlockKeys =>
  chainBlockKeys({ model: 'toy', layout: '' }, tokensOf(prompt, count), blockTokens)

/** A new object each time: a connector that keeps one keeps the past. */
export const viewOf = (request: ServedRequest): RequestView => ({
  requestId: asRequestId(request.id),
  promptTokenCount: request.promptTokenCount,
  promptDigest: request.promptDigest,
  digestOf: (count) =>
    count <= tokenCountOf(request) ? digestTokens(tokensOf(request.prompt, count)) : null,
  blockKeysOf: (count) => toyBlockKeys(request.prompt, count, request.blockTokens),
  computedTokenCount: request.computedTokenCount,
  kvTransferParams: request.params,
  finishReason: request.finishReason,
})
