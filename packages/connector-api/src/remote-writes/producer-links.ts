/**
 * The consumer's ways to the ranks of producers: an association and one handshake each, in which the
 * producer learns where it may write. Handshakes of different ranks run in parallel, while the producer
 * computes; requests of one rank share one. Owned by consumer-worker.ts.
 */
import {
  ConnectorError,
  limits,
  type AnyConnectorError,
  type Association,
  type PeerAddress,
  type PeerIdentity,
  type ProcessIdentity,
  type WorkerComponents,
} from '../index.ts'
import {
  HandshakeBackOff,
  addressFullError,
  addressOf,
  asConnectorError,
  asOtherConnector,
  closed,
  compareFacts,
  handshakesToStart,
  limitExceeded,
  type PeerFacts,
} from '../protocol/index.ts'
import {
  decodeHandshakeReply,
  encodeHandshakeRequest,
  type HandshakeReply,
  type HandshakeRequest,
} from './handshake-messages.ts'
import { kindOf, type WriteProtocol } from './messages.ts'
import type { ProducerPlace } from './offer.ts'
import type { WriteCounters } from './write-counters.ts'

/** One rank of an engine at one address. */
export type LinkKey = string

export interface ProducerLink {
  readonly key: LinkKey
  readonly address: PeerAddress
  /** Of the producer. */
  readonly rank: number
  readonly association: Association
  readonly identity: PeerIdentity
  readonly process: ProcessIdentity | null
  readonly facts: PeerFacts
  readonly leaseDurationMs: number
}

export type LinkAnswer =
  | { readonly kind: 'ready'; readonly link: ProducerLink }
  /** `LinkListener` tells the end. */
  | { readonly kind: 'waiting'; readonly key: LinkKey }
  | { readonly kind: 'unavailable'; readonly error: AnyConnectorError }

export interface LinkListener {
  /** A handshake with that engine begins: its agent may need ours from now on. */
  onHandshake(identity: PeerIdentity, rank: number): void
  onReady(link: ProducerLink): void
  onFailed(key: LinkKey, error: AnyConnectorError): void
  /** Its association ended. What the producer was asked for before stays asked for. */
  onEnd(link: ProducerLink): void
}

interface LinkRecord {
  readonly key: LinkKey
  readonly address: PeerAddress
  readonly place: ProducerPlace
  readonly rank: number
  readonly startedAtMs: number
  isStarted: boolean
  link: ProducerLink | null
}

export class ProducerLinks {
  readonly #components: WorkerComponents
  readonly #protocol: WriteProtocol
  readonly #counters: WriteCounters
  readonly #listener: LinkListener
  readonly #introduce: (identity: PeerIdentity) => HandshakeRequest
  readonly #timeoutMs: number
  readonly #backOff: HandshakeBackOff
  readonly #records = new Map<LinkKey, LinkRecord>()
  #isClosed = false

  constructor(options: {
    readonly components: WorkerComponents
    readonly protocol: WriteProtocol
    readonly counters: WriteCounters
    readonly listener: LinkListener
    /** What this rank says of itself to that engine. */
    readonly introduce: (identity: PeerIdentity) => HandshakeRequest
    readonly handshakeTimeoutMs: number
  }) {
    const { clock, random, sideChannel } = options.components
    this.#components = options.components
    this.#protocol = options.protocol
    this.#counters = options.counters
    this.#listener = options.listener
    this.#introduce = options.introduce
    this.#timeoutMs = options.handshakeTimeoutMs
    this.#backOff = new HandshakeBackOff(clock, random)
    sideChannel.onAssociationEnd((association) => this.#associationEnd(association))
  }

  /** The link to that rank, or the start of a handshake for it. */
  linkTo(place: ProducerPlace, rank: number): LinkAnswer {
    const lookup = addressOf(place, this.#components.config.peers)
    if (lookup.kind === 'stranger') return { kind: 'unavailable', error: lookup.error }
    const { engineId, host, port } = lookup.address
    const key = JSON.stringify([engineId, host, port, place.tpSize, rank])
    const known = this.#records.get(key)
    if (known !== undefined) {
      return known.link === null ? { kind: 'waiting', key } : { kind: 'ready', link: known.link }
    }
    const error = this.#refusal(key, lookup.address)
    if (error !== null) return { kind: 'unavailable', error }
    const startedAtMs = this.#components.clock.now()
    const record = { key, address: lookup.address, place, rank, startedAtMs }
    this.#records.set(key, { ...record, isStarted: false, link: null })
    this.#startNext()
    return { kind: 'waiting', key }
  }

  /** No handshake is answered any more, and none begins. */
  close(): void {
    this.#isClosed = true
    this.#records.clear()
  }

  #refusal(key: LinkKey, address: PeerAddress): AnyConnectorError | null {
    const recent = this.#backOff.errorOf(key) ?? addressFullError(this.#open, address)
    if (recent !== null) return recent
    const max = limits.peerCountMax
    return this.#records.size < max ? null : limitExceeded('peerCountMax', max + 1, max)
  }

  get #open(): LinkRecord[] {
    return [...this.#records.values()].filter(({ link }) => link === null)
  }

  #startNext(): void {
    for (const record of handshakesToStart(this.#open)) {
      record.isStarted = true
      void this.#run(record)
    }
  }

  async #run(record: LinkRecord): Promise<void> {
    const { key } = record
    try {
      const link = await this.#shakeHands(record)
      if (this.#isClosed || this.#records.get(key) !== record) return
      record.link = link
      this.#counters.add('handshakesDone')
      this.#backOff.succeed(key)
      this.#listener.onReady(link)
      // It may have ended between the answer and this turn.
      if (!link.association.isOpen) this.#associationEnd(link.association)
    } catch (cause) {
      const context = { operation: 'handshake', peer: record.address.engineId }
      const error = asConnectorError(cause, context)
      if (this.#isClosed || this.#records.get(key) !== record) return
      this.#records.delete(key)
      this.#countFailure(record, error)
      this.#backOff.fail(key, error)
      this.#listener.onFailed(key, error)
    }
    this.#startNext()
  }

  async #shakeHands(record: LinkRecord): Promise<ProducerLink> {
    const { key, address, place, rank } = record
    const { sideChannel } = this.#components
    const timeoutMs = this.#leftMs(record)
    const association = await sideChannel.connect(address, { timeoutMs })
    if (this.#isClosed) throw closed('connector')
    const identity = association.peer
    this.#listener.onHandshake(identity, rank)
    const request = this.#introduce(identity)
    const body = encodeHandshakeRequest(request)
    const kind = kindOf(this.#protocol.name, 'handshake', rank)
    const answer = await association
      .request(kind, body, { timeoutMs: this.#leftMs(record) })
      .catch((cause: unknown) => {
        throw asOtherConnector(noSuchRank(cause, record), {
          connector: this.#protocol.name,
          engineId: identity.engineId,
        })
      })
    const reply = decodeHandshakeReply(answer, identity.engineId)
    const { facts, grant } = reply
    if (grant === null || facts.tpSize !== place.tpSize) {
      throw incompatible(this.#protocol, request.facts, reply, place)
    }
    const { leaseDurationMs, process } = grant
    return { key, address, rank, association, identity, process, facts, leaseDurationMs }
  }

  #leftMs({ startedAtMs }: LinkRecord): number {
    return Math.max(1, this.#timeoutMs - (this.#components.clock.now() - startedAtMs))
  }

  #associationEnd(association: Association): void {
    for (const { key, link } of [...this.#records.values()]) {
      if (link?.association !== association) continue
      this.#records.delete(key)
      this.#listener.onEnd(link)
    }
  }

  #countFailure({ address, rank }: LinkRecord, error: AnyConnectorError): void {
    const { logger, metrics } = this.#components
    this.#counters.add('handshakesFailed')
    metrics.add('kv_handshakes_failed_total', 1, { code: error.code })
    logger.warn(`handshake failed: ${error.message}`, { code: error.code, ...address, rank })
  }
}

/** A rank beyond the producer's last hears nothing, so the side channel refuses what it is asked. */
function noSuchRank(cause: unknown, { place: { engineId, tpSize }, rank }: LinkRecord): unknown {
  const isRefused = ConnectorError.isInstance(cause) && cause.code === 'ERR_KV_MESSAGE_INVALID'
  if (!isRefused || rank === 0) return cause
  const mismatch = { field: 'tpSize', local: String(tpSize), remote: `without rank ${rank}` }
  const message = `tpSize is ${tpSize} as the router says, and ${engineId} answers for no rank ${rank}`
  const details = { peer: engineId, ...mismatch }
  return new ConnectorError('ERR_KV_PEER_INCOMPATIBLE', message, details, { cause })
}

function incompatible(
  { capabilities }: WriteProtocol,
  own: PeerFacts,
  { facts }: HandshakeReply,
  { engineId, tpSize }: ProducerPlace,
): AnyConnectorError {
  const mismatch =
    compareFacts(own, facts, capabilities) ??
    (facts.tpSize === tpSize
      ? { field: 'verdict', local: 'accepted', remote: 'refused' }
      : { field: 'tpSize', local: `${tpSize} (as the router says)`, remote: String(facts.tpSize) })
  return new ConnectorError(
    'ERR_KV_PEER_INCOMPATIBLE',
    `${mismatch.field} is ${mismatch.local} here and ${mismatch.remote} on ${engineId}`,
    { peer: engineId, ...mismatch },
  )
}
