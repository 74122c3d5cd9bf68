/**
 * Plays the hook calls that vLLM made against the connector's own scheduler half, in their order, and
 * compares its answers with those that the shim gave in its place. They can only differ through a bug;
 * then the request is failed, loudly and counted, and the engine goes on. A handoff that differs is worse
 * (a reader may hold it already), so it ends the host, and with it every lease. Owned by host-core.ts.
 */
import { isDeepStrictEqual } from 'node:util'
import {
  ConnectorError,
  InvariantError,
  asRequestId,
  assert,
  assertNever,
  blockKeyCount,
  type BlockIds,
  type BlockKeys,
  type ConnectorScheduler,
  type FailedLoad,
  type KvTransferParams,
  type Logger,
  type RequestId,
  type RequestView,
} from '@kvferry/connector-api'
import type { EngineClock } from './engine-clock.ts'
import type { FailureReport, HookEvent } from './messages.ts'

/** Fields of a handoff that depend on the moment it is written, so two writers of it may differ. */
const momentaryFields: readonly string[] = ['remote_lease_deadline_ms', 'remote_signature']

type EventOf<Kind extends HookEvent['k']> = Extract<HookEvent, { k: Kind }>

interface Known {
  readonly promptTokenCount: number
  readonly promptDigest: Uint8Array
  readonly kvTransferParams: KvTransferParams
  /** Of its prompt without the last token; undefined: nothing keeps it. */
  readonly keys: BlockKeys | undefined
  /** The shim promised something else than the connector would have. */
  isDiverged: boolean
}

/** What the engine must be told because of a replay. */
export interface ReplayOutcome {
  readonly failed: readonly FailureReport[]
  /** Blocks that the shim keeps for nobody. */
  readonly sent: readonly string[]
  readonly finished: ReadonlySet<RequestId>
}

export class HookReplay {
  readonly #scheduler: ConnectorScheduler
  readonly #clock: EngineClock
  readonly #logger: Logger
  readonly #known = new Map<RequestId, Known>()
  /** Failures told to the engine, kept until it says that it has acted on them. */
  readonly #failures = new Map<RequestId, FailedLoad>()
  #failed: FailureReport[] = []
  #sent: string[] = []
  #finished = new Set<RequestId>()
  events = 0
  divergences = 0

  /** `clock`: the one that the scheduler half reads. */
  constructor(scheduler: ConnectorScheduler, clock: EngineClock, logger: Logger) {
    this.#scheduler = scheduler
    this.#clock = clock
    this.#logger = logger
  }

  /** @throws InvariantError when a handoff that left the engine is not what the connector would have written. */
  play(events: readonly HookEvent[]): ReplayOutcome {
    for (const event of events) {
      this.events++
      try {
        this.#clock.during('at' in event ? event.at : undefined, () => this.#playOne(event))
      } catch (error) {
        if (error instanceof InvariantError && event.k === 'finish') throw error
        this.#failOne(event, error)
      }
    }
    const outcome = { failed: this.#failed, sent: this.#sent, finished: this.#finished }
    this.#failed = []
    this.#sent = []
    this.#finished = new Set()
    return outcome
  }

  /** A failed load was reported to the engine; its scheduler half hears of it with the engine's word. */
  noteFailure(failure: FailedLoad): void {
    this.#failures.set(failure.requestId, failure)
  }

  #playOne(event: HookEvent): void {
    switch (event.k) {
      case 'new':
        return this.#onNew(event)
      case 'match':
        return this.#onMatch(event)
      case 'alloc':
        return this.#onAlloc(event)
      case 'finish':
        return this.#onFinish(event)
      case 'output':
        return this.#onOutput(event)
      default:
        return assertNever(event)
    }
  }

  #onNew({ id, prompt, digest, params, keys }: EventOf<'new'>): void {
    const requestId = asRequestId(id)
    this.#known.set(requestId, {
      promptTokenCount: prompt,
      promptDigest: digest,
      kvTransferParams: params,
      keys,
      isDiverged: false,
    })
    this.#scheduler.onNewRequest(this.#view(requestId, 0))
  }

  #onMatch({ id, computed, answer }: EventOf<'match'>): void {
    const requestId = asRequestId(id)
    const { tokens } = this.#scheduler.getNumNewMatchedTokens(
      this.#view(requestId, computed),
      computed,
    )
    this.#knownOf(requestId).isDiverged = tokens !== answer
    if (tokens !== answer) this.#diverge(id, 'matched tokens', answer, tokens)
  }

  #onAlloc({ id, computed, blocks, external }: EventOf<'alloc'>): void {
    const requestId = asRequestId(id)
    const view = this.#view(requestId, computed)
    const isRefused = external > 0 && this.#knownOf(requestId).isDiverged
    // A load that was promised by mistake is not begun; the producer may free.
    this.#scheduler.updateStateAfterAlloc(view, toBlockIds(blocks), isRefused ? 0 : external)
    if (isRefused) this.#fail(id, 'ERR_KV_HANDOFF_INVALID', 'the shim promised it by mistake')
  }

  #onFinish({ id, computed, end, blocks, delayFree, params }: EventOf<'finish'>): void {
    const requestId = asRequestId(id)
    const view = { ...this.#view(requestId, computed), finishReason: end }
    this.#known.delete(requestId)
    this.#finished.add(requestId)
    const answer = this.#scheduler.requestFinished(view, toBlockIds(blocks))
    if (delayFree !== answer.delayFree) {
      this.#diverge(id, 'delayed free', delayFree, answer.delayFree)
      // Nobody holds a lease on what the connector would have freed.
      if (delayFree) this.#sent.push(id)
      return
    }
    if (isSameHandoff(params, answer.kvTransferParams)) return
    this.divergences++
    throw new InvariantError(
      `the handoff of ${id} is ${JSON.stringify(params)}, ` +
        `the connector would have written ${JSON.stringify(answer.kvTransferParams)}`,
    )
  }

  #onOutput({ sent, received, matched = [] }: EventOf<'output'>): void {
    const receivedIds = received.map(asRequestId)
    const failed = receivedIds.flatMap((requestId) => this.#failures.get(requestId) ?? [])
    for (const { requestId } of failed) this.#failures.delete(requestId)
    this.#scheduler.updateConnectorOutput({
      sent: sent.map(asRequestId),
      received: receivedIds,
      failed,
      matched: matched.map(({ id, question, blocks }) => ({
        ...{ requestId: asRequestId(id), question, blockCount: blocks },
      })),
    })
  }

  #knownOf(requestId: RequestId): Known {
    const known = this.#known.get(requestId)
    if (known === undefined) throw new InvariantError(`request ${requestId} was not introduced`)
    return known
  }

  #view(requestId: RequestId, computedTokenCount: number): RequestView {
    const known = this.#knownOf(requestId)
    const { promptTokenCount, promptDigest, kvTransferParams, keys } = known
    return {
      requestId,
      promptTokenCount,
      promptDigest,
      computedTokenCount,
      kvTransferParams,
      finishReason: null,
      ...(keys && { blockKeysOf: (tokenCount) => keysOf(keys, tokenCount, promptTokenCount) }),
    }
  }

  #diverge(id: string, what: string, shim: unknown, connector: unknown): void {
    this.divergences++
    this.#logger.error('the shim and the connector disagree: the request fails', {
      requestId: id,
      what,
      shim: String(shim),
      connector: String(connector),
    })
  }

  #failOne(event: HookEvent, error: unknown): void {
    const id = 'id' in event ? event.id : ''
    const message = error instanceof Error ? error.message : String(error)
    this.divergences++
    this.#logger.error('a hook failed: its request fails', {
      requestId: id,
      hook: event.k,
      message,
    })
    const code = ConnectorError.isInstance(error) ? error.code : 'ERR_KV_UNSUPPORTED'
    if (event.k === 'alloc' && event.external > 0) this.#fail(id, code, message)
    if (event.k === 'finish' && event.delayFree) this.#sent.push(id)
  }

  #fail(id: string, code: string, message: string): void {
    this.#failed.push({ id, code, message })
  }
}

/** The shim worked them out for what a connector keeps of a prompt. */
function keysOf(keys: BlockKeys, tokenCount: number, promptTokenCount: number): BlockKeys {
  const isKept = tokenCount === promptTokenCount - 1 && blockKeyCount(keys) <= tokenCount
  assert(isKept, `keys of ${tokenCount} of ${promptTokenCount} tokens, of which the shim has none`)
  return keys
}

const toBlockIds = (blocks: readonly (readonly number[])[]): BlockIds =>
  blocks.map((group) => Uint32Array.from(group))

function isSameHandoff(left: KvTransferParams | null, right: KvTransferParams | null): boolean {
  return isDeepStrictEqual(withoutMomentary(left), withoutMomentary(right))
}

function withoutMomentary(params: KvTransferParams | null): KvTransferParams | null {
  if (params === null) return null
  const kept = Object.entries(params).filter(([field]) => !momentaryFields.includes(field))
  return Object.fromEntries(kept)
}
