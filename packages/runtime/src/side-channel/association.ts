/**
 * One open connection to an admitted peer: matches answers to requests, runs handlers for what arrives,
 * and ends as a whole when a frame can't be trusted or delivered. Both sides may ask. Owned by the side
 * channel, which is told of the end exactly once.
 */
import {
  assert,
  assertNever,
  ConnectorError,
  EqualTimers,
  limits,
  unhandledKind,
  type AnyConnectorError,
  type Association,
  type Clock,
  type Logger,
  type Metrics,
  type PeerIdentity,
  type SideChannelHandler,
  type Timer,
} from '@kvferry/connector-api'
import type { Connection } from './connection.ts'
import { encodeFrame, invalidFrame, isKind, type Frame } from './frame.ts'
import { peerUnavailable } from './peer-errors.ts'
import { runHandler } from './run-handler.ts'
import { decodeRefusal, encodeRefusal, farewell } from './refusal.ts'

export interface AssociationOptions {
  readonly connection: Connection
  readonly peer: PeerIdentity
  readonly handlers: ReadonlyMap<string, SideChannelHandler>
  readonly clock: Clock
  readonly logger: Logger
  readonly metrics: Metrics
  /** The id of the first request; any unsigned 32-bit number. */
  readonly firstRequestId: number
  onEnd(association: TcpAssociation): void
}

interface PendingRequest {
  readonly timer: Timer
  resolve(body: Uint8Array): void
  reject(error: AnyConnectorError): void
}

const tooMany = (what: string): AnyConnectorError => {
  const max = limits.requestsInFlightPerAssociationMax
  const details = { limit: 'requestsInFlightPerAssociationMax', value: max + 1, max }
  return new ConnectorError('ERR_KV_LIMIT', `more than ${max} ${what} on one association`, details)
}

const requestIdCount = 2 ** 32

export class TcpAssociation implements Association {
  readonly peer: PeerIdentity
  readonly #options: AssociationOptions
  readonly #pending = new Map<number, PendingRequest>()
  /** Of requests that leave it to us how long they wait: nearly all. */
  readonly #usualDeadlines: EqualTimers
  /** Requests and sends of the peer whose handlers haven't returned. */
  #servingCount = 0
  #nextRequestId: number
  #isOpen = true

  constructor(options: AssociationOptions) {
    this.#options = options
    this.#usualDeadlines = new EqualTimers(options.clock, limits.sideChannelTimeoutMs)
    this.peer = options.peer
    this.#nextRequestId = options.firstRequestId
    options.connection.setListener({
      onFrame: (frame) => this.#onFrame(frame),
      onMalformed: (error) => this.#refuseStream(error),
      onClosed: (cause) => {
        this.#end(peerUnavailable(this.peer.engineId, 'connection lost', cause), null)
      },
    })
  }

  get isOpen(): boolean {
    return this.#isOpen
  }

  request(
    kind: string,
    body: Uint8Array,
    options: { timeoutMs?: number } = {},
  ): Promise<Uint8Array> {
    const timeoutMs = options.timeoutMs ?? limits.sideChannelTimeoutMs
    return new Promise((resolve, reject) => {
      if (!isKind(kind)) throw new TypeError(`not a message kind: ${JSON.stringify(kind)}`)
      if (!this.#isOpen) throw peerUnavailable(this.peer.engineId, 'association is closed')
      if (this.#pending.size >= limits.requestsInFlightPerAssociationMax) {
        throw tooMany('requests await an answer')
      }
      const id = this.#takeRequestId()
      const bytes = encodeFrame('request', { id, kind, body })
      const onDue = (): void => {
        this.#pending.delete(id)
        const what = `answer of engine ${this.peer.engineId} to ${kind}`
        const message = `no ${what} within ${timeoutMs} ms`
        reject(new ConnectorError('ERR_KV_DEADLINE', message, { what, deadlineMs: timeoutMs }))
      }
      const isUsual = options.timeoutMs === undefined
      const timer = isUsual
        ? this.#usualDeadlines.start(onDue)
        : this.#options.clock.after(timeoutMs, onDue)
      this.#pending.set(id, { timer, resolve, reject })
      this.#write(bytes)
    })
  }

  send(kind: string, body: Uint8Array): void {
    if (!isKind(kind)) throw new TypeError(`not a message kind: ${JSON.stringify(kind)}`)
    this.#write(encodeFrame('send', { kind, body }))
  }

  flush(): void {
    this.#options.connection.flush()
  }

  close(): void {
    this.#end(
      peerUnavailable(this.peer.engineId, 'association was closed here'),
      encodeFrame('close'),
    )
  }

  /** Ends it and tells the peer why; for the side channel's own reasons. */
  refuse(error: AnyConnectorError): void {
    this.#end(error, farewell(error))
  }

  #takeRequestId(): number {
    while (this.#pending.has(this.#nextRequestId)) {
      this.#nextRequestId = (this.#nextRequestId + 1) % requestIdCount
    }
    const id = this.#nextRequestId
    this.#nextRequestId = (id + 1) % requestIdCount
    return id
  }

  #write(bytes: Uint8Array): void {
    if (!this.#isOpen) return
    const error = this.#options.connection.write(bytes)
    if (error === null) return
    this.#options.logger.warn('association ended', { reason: error.message, code: error.code })
    this.#end(error, null)
  }

  #onFrame(frame: Frame): void {
    switch (frame.type) {
      case 'request':
      case 'send':
        return this.#serve(frame)
      case 'answer':
        return this.#takePending(frame.id)?.resolve(frame.body)
      case 'refusal': {
        const error = decodeRefusal(frame.body)
        const pending = this.#takePending(frame.id)
        if (pending !== undefined) return pending.reject(error)
        // Without a request it is the peer's last word on the connection; late ones are harmless.
        if (frame.id === 0)
          this.#end(peerUnavailable(this.peer.engineId, error.message, error), null)
        return
      }
      case 'close':
        return this.#end(
          peerUnavailable(this.peer.engineId, 'closed by the peer'),
          encodeFrame('close'),
        )
      case 'hello':
        return this.#refuseStream(invalidFrame('hello on an open association'))
      default:
        return assertNever(frame.type)
    }
  }

  /** Undefined for an answer that came after its deadline, which is legal and ignored. */
  #takePending(id: number): PendingRequest | undefined {
    const pending = this.#pending.get(id)
    this.#pending.delete(id)
    pending?.timer.stop()
    return pending
  }

  #serve({ type, id, kind, body }: Frame): void {
    const refuse = (error: AnyConnectorError): void => {
      if (type === 'request')
        this.#write(encodeFrame('refusal', { id, body: encodeRefusal(error) }))
    }
    const refuseAndCount = (error: AnyConnectorError): void => {
      this.#options.metrics.add('kv_messages_refused_total', 1, { where: 'side-channel-message' })
      this.#options.logger.debug('message refused', { kind, reason: error.message })
      refuse(error)
    }
    const handler = this.#options.handlers.get(kind)
    if (handler === undefined) return refuseAndCount(unhandledKind(kind))
    if (this.#servingCount >= limits.requestsInFlightPerAssociationMax) {
      return refuseAndCount(tooMany('messages are being handled'))
    }
    this.#servingCount++
    runHandler({
      handler,
      kind,
      body,
      from: this,
      logger: this.#options.logger,
      onAnswered: (bytes) => {
        this.#servingCount--
        if (type === 'request') this.#answer(id, bytes)
      },
      onRefused: (error) => {
        this.#servingCount--
        refuse(error)
      },
    })
  }

  #answer(id: number, body: Uint8Array): void {
    if (!this.#isOpen) return
    let bytes: Uint8Array
    try {
      bytes = encodeFrame('answer', { id, body })
    } catch (error) {
      if (!ConnectorError.isInstance(error)) throw error
      bytes = encodeFrame('refusal', { id, body: encodeRefusal(error) })
    }
    this.#write(bytes)
  }

  #refuseStream(error: AnyConnectorError): void {
    this.#options.metrics.add('kv_messages_refused_total', 1, { where: 'side-channel-frame' })
    this.#options.logger.warn('association ended', { reason: error.message, code: error.code })
    this.refuse(error)
  }

  #end(cause: AnyConnectorError, lastWords: Uint8Array | null): void {
    if (!this.#isOpen) return
    this.#isOpen = false
    if (lastWords === null) this.#options.connection.destroy()
    else this.#options.connection.leave(lastWords)
    const { engineId } = this.peer
    const error =
      cause.code === 'ERR_KV_PEER_UNAVAILABLE'
        ? cause
        : peerUnavailable(engineId, `association ended: ${cause.message}`, cause)
    for (const id of [...this.#pending.keys()]) this.#takePending(id)?.reject(error)
    this.#usualDeadlines.close()
    assert(this.#pending.size === 0, 'a request survived its association')
    this.#options.onEnd(this)
  }
}
