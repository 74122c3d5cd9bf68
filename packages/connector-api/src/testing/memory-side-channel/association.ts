/**
 * One end of an association between two engines of one process. Bodies are copied, handlers run in the
 * receiver, typed errors travel back. It ends once; what was in flight then is lost.
 */
import { InvariantError } from '../../assert.ts'
import type { Clock, Timer } from '../../clock.ts'
import { ConnectorError } from '../../errors.ts'
import type { AnyConnectorError } from '../../errors.ts'
import { limits } from '../../limits.ts'
import { unhandledKind } from '../../side-channel.ts'
import type { Association, PeerIdentity, SideChannelHandler } from '../../side-channel.ts'
import type { Pipe } from './pipe.ts'

export interface AssociationOwner {
  readonly clock: Clock
  readonly handlers: ReadonlyMap<string, SideChannelHandler>
  /** Its process is dead: nobody hears of anything any more. */
  readonly isDead: boolean
  onEnd(association: MemoryAssociation): void
}

interface PendingRequest {
  readonly timer: Timer
  resolve(body: Uint8Array): void
  reject(error: AnyConnectorError): void
}

type Answer = { readonly body: Uint8Array } | { readonly error: AnyConnectorError }

export const unavailable = (peer: string, reason: string): AnyConnectorError => {
  const message = `engine ${peer}: ${reason}`
  return new ConnectorError('ERR_KV_PEER_UNAVAILABLE', message, { peer }) as AnyConnectorError
}

const limit = (name: string, value: number, max: number): AnyConnectorError => {
  const details = { limit: name, value, max }
  return new ConnectorError('ERR_KV_LIMIT', `${name}: ${value}`, details) as AnyConnectorError
}

const invalid = (reason: string): AnyConnectorError => {
  const details = { where: 'side-channel-message', reason }
  return new ConnectorError('ERR_KV_MESSAGE_INVALID', reason, details) as AnyConnectorError
}

/** A new error object, as if it had been read from a frame. */
const received = (error: AnyConnectorError): AnyConnectorError =>
  new ConnectorError(error.code, error.message, structuredClone(error.details)) as AnyConnectorError

const checkKind = (kind: string): void => {
  const sizeBytes = typeof kind === 'string' ? new TextEncoder().encode(kind).length : 0
  if (sizeBytes === 0 || sizeBytes > limits.idSizeBytesMax) {
    throw new TypeError(`not a message kind: ${JSON.stringify(kind)}`)
  }
}

const checkedCopy = (body: Uint8Array): Uint8Array => {
  if (!(body instanceof Uint8Array)) throw new TypeError('body must be a Uint8Array')
  const max = limits.frameSizeBytesMax
  if (body.length > max) throw limit('frameSizeBytesMax', body.length, max)
  return body.slice()
}

export class MemoryAssociation implements Association {
  readonly peer: PeerIdentity
  readonly #owner: AssociationOwner
  readonly #out: Pipe
  readonly #onGone: () => void
  #remote: MemoryAssociation | null = null
  readonly #pending = new Map<number, PendingRequest>()
  #servingCount = 0
  #nextRequest = 1
  #isOpen = true

  constructor(options: {
    readonly owner: AssociationOwner
    readonly peer: PeerIdentity
    /** Carries what this end sends. */
    readonly out: Pipe
    /** For the network's books; also when the owner is dead. */
    onGone(): void
  }) {
    this.#owner = options.owner
    this.peer = options.peer
    this.#out = options.out
    this.#onGone = () => options.onGone()
  }

  get isOpen(): boolean {
    return this.#isOpen
  }

  /** Once, before use. */
  attach(remote: MemoryAssociation): void {
    this.#remote = remote
  }

  async request(
    kind: string,
    body: Uint8Array,
    options: { timeoutMs?: number } = {},
  ): Promise<Uint8Array> {
    checkKind(kind)
    const copy = checkedCopy(body)
    if (!this.#isOpen) throw unavailable(this.peer.engineId, 'association is closed')
    const max = limits.requestsInFlightPerAssociationMax
    if (this.#pending.size >= max) {
      throw limit('requestsInFlightPerAssociationMax', max + 1, max)
    }
    const timeoutMs = options.timeoutMs ?? limits.sideChannelTimeoutMs
    const id = this.#nextRequest
    this.#nextRequest += 1
    return new Promise((resolve, reject) => {
      const timer = this.#owner.clock.after(timeoutMs, () => {
        this.#pending.delete(id)
        const what = `answer of engine ${this.peer.engineId} to ${kind}`
        const details = { what, deadlineMs: timeoutMs }
        reject(new ConnectorError('ERR_KV_DEADLINE', `no ${what} in ${timeoutMs} ms`, details))
      })
      this.#pending.set(id, { timer, resolve, reject })
      this.#deliver((remote) =>
        remote.#serve(kind, copy, (answer) => {
          remote.#deliver((asker) => asker.#onAnswer(id, answer))
        }),
      )
    })
  }

  send(kind: string, body: Uint8Array): void {
    checkKind(kind)
    const copy = checkedCopy(body)
    if (this.#isOpen) this.#deliver((remote) => remote.#serve(kind, copy, () => {}))
  }

  /** Nothing is held back here. */
  flush(): void {}

  close(): void {
    if (!this.#isOpen) return
    this.#deliver((remote) => remote.end(unavailable(remote.peer.engineId, 'closed by the peer')))
    this.end(unavailable(this.peer.engineId, 'association was closed here'))
  }

  /** Idempotent. Open requests fail with `error`; the owner hears of it. */
  end(error: AnyConnectorError): void {
    if (!this.#isOpen) return
    this.#isOpen = false
    const pending = [...this.#pending.values()]
    this.#pending.clear()
    for (const request of pending) request.timer.stop()
    this.#onGone()
    if (this.#owner.isDead) return
    for (const request of pending) request.reject(error)
    this.#owner.onEnd(this)
  }

  #deliver(act: (remote: MemoryAssociation) => void): void {
    const remote = this.#remote!
    const isTaken = this.#out.push(() => {
      if (remote.#isOpen && !remote.#owner.isDead) act(remote)
    })
    if (!isTaken) this.end(unavailable(this.peer.engineId, 'it takes nothing any more'))
  }

  #onAnswer(id: number, answer: Answer): void {
    const pending = this.#pending.get(id)
    // An answer after its deadline is legal and ignored.
    if (pending === undefined) return
    this.#pending.delete(id)
    pending.timer.stop()
    if ('error' in answer) pending.reject(received(answer.error))
    else pending.resolve(answer.body)
  }

  #serve(kind: string, body: Uint8Array, answer: (answer: Answer) => void): void {
    const handler = this.#owner.handlers.get(kind)
    if (handler === undefined) return answer({ error: unhandledKind(kind) })
    const max = limits.requestsInFlightPerAssociationMax
    if (this.#servingCount >= max) {
      return answer({ error: limit('requestsInFlightPerAssociationMax', max + 1, max) })
    }
    this.#servingCount += 1
    void this.#run(handler, kind, body).then((result) => {
      this.#servingCount -= 1
      answer(result)
    })
  }

  async #run(handler: SideChannelHandler, kind: string, body: Uint8Array): Promise<Answer> {
    try {
      return { body: checkedCopy(await handler(body, this)) }
    } catch (error) {
      if (error instanceof InvariantError) throw error
      // Other exceptions come from reading the body; what they say is not for the peer.
      return {
        error: ConnectorError.isInstance(error) ? error : invalid(`handling ${kind} failed`),
      }
    }
  }
}
