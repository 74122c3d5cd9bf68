/**
 * One record per request, and the only place where its state changes. Created when the core accepts the
 * request, dropped when nothing holds its blocks any more. Mutable, used on the core's thread only.
 */
import { assert, digestTokens } from '@kvferry/connector-api'
import type {
  AnyConnectorError,
  BlockKeys,
  FinishReason,
  KvTransferParams,
  LoadSample,
  RequestId,
  RequestView,
} from '@kvferry/connector-api'
import type { BlockHash } from './block-hash.ts'
import { emptyDigestSum, extendSeeds, type DigestSum } from './kv-content.ts'

export type RequestState =
  /** In the queue; holds no blocks. */
  | { readonly kind: 'waiting' }
  /** A load of tokens `[loadStart, loadEnd)` writes into its blocks. */
  | { readonly kind: 'waiting-for-remote-kv'; readonly loadStart: number; readonly loadEnd: number }
  /** The load ended; holds blocks, waits for a place in a step. */
  | { readonly kind: 'load-ended' }
  | { readonly kind: 'running' }
  /** Back in the queue, at its front; lost its blocks and computes all again. */
  | { readonly kind: 'preempted' }
  /** Answered; a peer may still read its blocks. */
  | { readonly kind: 'finished-waiting-for-send' }
  /** Aborted in its load, which may still write; afterwards perhaps still `sent` is to come. */
  | { readonly kind: 'finished-waiting-for-receive'; readonly isSendPending: boolean }
  /** Holds nothing. */
  | { readonly kind: 'finished' }

export type RequestStateKind = RequestState['kind']

/** Every legal change; all others are bugs. */
export const requestTransitions: Readonly<Record<RequestStateKind, readonly RequestStateKind[]>> = {
  waiting: ['waiting-for-remote-kv', 'running', 'finished', 'finished-waiting-for-send'],
  'waiting-for-remote-kv': ['load-ended', 'finished-waiting-for-receive'],
  'load-ended': ['running', 'preempted', 'finished', 'finished-waiting-for-send'],
  running: ['preempted', 'finished', 'finished-waiting-for-send'],
  preempted: ['waiting-for-remote-kv', 'running', 'finished', 'finished-waiting-for-send'],
  'finished-waiting-for-send': ['finished'],
  'finished-waiting-for-receive': [
    'finished-waiting-for-receive',
    'finished-waiting-for-send',
    'finished',
  ],
  finished: [],
}

/** What the engine learned about the load of one request. */
export interface LoadRecord {
  readonly allocAtMs: number
  outcome: 'loaded' | 'failed' | null
  errorCode: string | null
  sample: LoadSample | null
}

export interface RequestInput {
  readonly requestId: RequestId
  readonly promptTokens: Uint8Array
  /** Null: that of these tokens. */
  readonly promptDigest: Uint8Array | null
  readonly maxTokens: number
  readonly kvTransferParams: KvTransferParams | null
  readonly receivedAtMs: number
}

/** Names the content of blocks that hold these tokens, in this engine. */
export type BlockKeyer = (tokens: Uint8Array) => BlockKeys

export class EngineRequest {
  readonly requestId: RequestId
  readonly promptTokenCount: number
  readonly maxTokens: number
  readonly kvTransferParams: KvTransferParams | null
  /** Prompt, then output; `tokenCount` of them exist. */
  readonly tokens: Uint8Array
  readonly seeds: BigUint64Array
  tokenCount: number
  /** Tokens `[0, computedTokenCount)` have valid KV in `blocks`. */
  computedTokenCount = 0
  /** In token order. */
  blocks: number[] = []
  /** Hashes of full blocks, as far as they were needed; and how many leading ones the pool knows. */
  readonly blockHashes: BlockHash[] = []
  cachedBlockCount = 0
  finishReason: FinishReason | null = null
  error: AnyConnectorError | null = null

  /** What `digest` must find in each slot, where `isExpectedKnown`. */
  readonly expected: BigUint64Array
  readonly isExpectedKnown: Uint8Array
  /** Digests of the prompt's slots `[0, digestedCount)`, as read from memory. */
  digestSum: DigestSum = emptyDigestSum
  digestedCount = 0
  /** Loaded tokens whose bytes were not checked yet. */
  unverifiedLoad: { readonly start: number; readonly end: number } | null = null
  readonly verification = { blocksLoaded: 0, blocksVerified: 0 }
  readonly mismatchedBlockIndexes = new Set<number>()

  readonly receivedAtMs: number
  /** Known to the scheduler. */
  queuedAtMs: number
  scheduledAtMs: number | null = null
  prefillEndAtMs: number | null = null
  loadReadyAtMs: number | null = null
  firstTokenAtMs: number | null = null
  lastTokenAtMs: number | null = null
  load: LoadRecord | null = null
  isRecomputed = false
  /** All of its prompt came by a load. A part that came from a history leaves the end of the prefill to be measured. */
  isPromptLoaded = false
  preemptionCount = 0
  localHitTokenCount = 0

  readonly #keyer: BlockKeyer
  #promptDigest: Uint8Array | null
  #state: RequestState = { kind: 'waiting' }

  constructor(input: RequestInput, queuedAtMs: number, keyer: BlockKeyer) {
    assert(input.promptTokens.length > 0 && input.maxTokens > 0, 'a request without tokens')
    const capacity = input.promptTokens.length + input.maxTokens
    this.#keyer = keyer
    this.requestId = input.requestId
    this.promptTokenCount = input.promptTokens.length
    this.#promptDigest = input.promptDigest
    this.maxTokens = input.maxTokens
    this.kvTransferParams = input.kvTransferParams
    this.receivedAtMs = input.receivedAtMs
    this.queuedAtMs = queuedAtMs
    this.tokens = new Uint8Array(capacity)
    this.tokens.set(input.promptTokens)
    this.tokenCount = this.promptTokenCount
    this.seeds = new BigUint64Array(capacity)
    extendSeeds(this.seeds, this.tokens, 0, this.tokenCount)
    this.expected = new BigUint64Array(capacity)
    this.isExpectedKnown = new Uint8Array(capacity)
  }

  get state(): RequestState {
    return this.#state
  }

  /** @throws InvariantError for a change that is not in `requestTransitions`. */
  enter(state: RequestState): void {
    const from = this.#state.kind
    assert(
      requestTransitions[from].includes(state.kind),
      `request ${this.requestId} can't go from ${from} to ${state.kind}`,
    )
    this.#state = state
  }

  /** Worked out when it is first asked for: a hash costs as much as a hook, and few requests need theirs. */
  get promptDigest(): Uint8Array {
    return (this.#promptDigest ??= digestTokens(this.tokens.subarray(0, this.promptTokenCount)))
  }

  get outputTokenCount(): number {
    return this.tokenCount - this.promptTokenCount
  }

  get isAnswered(): boolean {
    return this.finishReason !== null
  }

  /** The connector keeps its blocks for a peer. */
  get isSendPending(): boolean {
    const { kind } = this.#state
    if (kind === 'finished-waiting-for-send') return true
    return kind === 'finished-waiting-for-receive' && this.#state.isSendPending
  }

  appendToken(token: number): void {
    this.tokens[this.tokenCount] = token
    this.tokenCount++
    extendSeeds(this.seeds, this.tokens, this.tokenCount - 1, this.tokenCount)
  }

  /** Forgets all computed KV; the caller took the blocks. Output so far stays and is computed again. */
  resetComputed(): void {
    this.computedTokenCount = 0
    this.cachedBlockCount = 0
    this.blocks = []
    this.digestSum = emptyDigestSum
    this.digestedCount = 0
    this.unverifiedLoad = null
  }

  view(): RequestView {
    const digest = (): Uint8Array => this.promptDigest
    return {
      requestId: this.requestId,
      promptTokenCount: this.promptTokenCount,
      get promptDigest() {
        return digest()
      },
      digestOf: (count) =>
        count <= this.tokenCount ? digestTokens(this.tokens.subarray(0, count)) : null,
      blockKeysOf: (count) => this.#keyer(this.tokens.subarray(0, count)),
      computedTokenCount: this.computedTokenCount,
      kvTransferParams: this.kvTransferParams,
      finishReason: this.finishReason,
    }
  }
}
