/**
 * The consumer's part of the worker half: shakes hands with producers early, registers blocks, and hears of
 * their end. Routes what the scheduler half ordered, and what producers say, to the parts that act. Owned
 * by a connector's worker half; runs on the engine's thread.
 */
import {
  ConnectorError,
  limits,
  type AgentNotification,
  type Association,
  type BlockIds,
  type PeerIdentity,
  type RequestId,
  type WorkerComponents,
} from '../index.ts'
import {
  EndWait,
  PeerTokens,
  PollHolds,
  closed,
  limitExceeded,
  peerUnavailable,
  protocolLimits,
  type BlockFinisher,
  type LoadResults,
  type PeerFacts,
} from '../protocol/index.ts'
import type { HandshakeRequest } from './handshake-messages.ts'
import { Heartbeats } from './heartbeats.ts'
import type { Offer } from './offer.ts'
import { LoadTable } from './load-table.ts'
import {
  decodeDone,
  decodeFailed,
  decodeSpeaker,
  encodeEmpty,
  kindOf,
  messageKinds,
  type MessageKind,
  type WriteProtocol,
} from './messages.ts'
import { decodeWriteDone } from './notification.ts'
import { OfferKeeper } from './offer-keeper.ts'
import { ProducerLinks, type ProducerLink } from './producer-links.ts'
import type { WriteCounters } from './write-counters.ts'

export interface ConsumerOptions {
  readonly protocol: WriteProtocol
  readonly components: WorkerComponents
  readonly counters: WriteCounters
  readonly options: {
    /** Connect, exchange, add the peer. */
    readonly handshakeTimeoutMs: number
    /** How long a load waits for its blocks before it is withdrawn. */
    readonly registrationTimeoutMs: number
  }
  readonly facts: PeerFacts
  readonly rank: number
  readonly finisher: BlockFinisher
  readonly agentMetadata: Uint8Array
  /** What is offered is there already, and only for whoever asks first: so it is asked for at once. */
  readonly claimsAtOnce?: boolean
  /** As `TransferAgent.exportBlockTable` made it. */
  readonly blockTable: Uint8Array
}

export class ConsumerWorker {
  readonly #init: ConsumerOptions
  readonly #components: WorkerComponents
  readonly #counters: WriteCounters
  readonly #links: ProducerLinks
  readonly #offers: OfferKeeper
  readonly #loads: LoadTable
  readonly #heartbeats: Heartbeats
  readonly #tokens: PeerTokens
  readonly #holds: PollHolds
  readonly #loadsEnd: EndWait
  readonly #connected = new Set<ProducerLink>()
  #isExpecting = false

  constructor(init: ConsumerOptions) {
    const { protocol, components, counters, options, rank, facts } = init
    this.#init = init
    this.#components = components
    this.#counters = counters
    this.#tokens = new PeerTokens(components.random, (peer) => this.#loads.parts.isOpenAt(peer))
    this.#loadsEnd = new EndWait(components.clock, () => this.#loads.openCount === 0)
    this.#holds = new PollHolds(components.clock, () => this.#onChange())
    const speaker = { protocol: protocol.name, components, rank, facts }
    const links = (): ProducerLinks => this.#links
    this.#offers = new OfferKeeper(counters, speaker, links)
    this.#loads = new LoadTable({
      ...{ components, counters, links, speaker, finisher: init.finisher },
      registrationTimeoutMs: options.registrationTimeoutMs,
      onChange: () => this.#onChange(),
      onRelease: (order, of) => this.#offers.releaseRank(order, of),
    })
    this.#heartbeats = new Heartbeats({ speaker, counters, source: this.#heartbeatSource() })
    this.#links = this.#createLinks()
    this.#listen()
  }

  get results(): LoadResults {
    return this.#loads.results
  }

  get quarantinedBlockCount(): number {
    return this.#loads.quarantinedBlockCount
  }

  /** A request came whose KV another engine computes now. */
  offer(offer: Offer): void {
    const links = this.#offers.add(offer)
    if (this.#init.claimsAtOnce !== true) return
    for (const link of links) void this.#heartbeats.ask(link, [offer.transferId])
  }

  /** Has what was offered written into these blocks. */
  load(requestId: RequestId, localBlockIds: BlockIds, tokenEnd: number): void {
    const offer = this.#offers.take(requestId)
    if (offer !== null) {
      this.#loads.start({ ...offer, localBlockIds, tokenEnd })
      return
    }
    // The offer found no room; or this worker is closing, and keeps none.
    const max = limits.requestCountMax
    const error = this.#loads.stopError ?? limitExceeded('requestCountMax', max + 1, max)
    this.#loads.fail({ requestId, localBlockIds }, error)
  }

  /** Nothing is to be written. */
  release(requestId: RequestId): void {
    const offer = this.#offers.take(requestId)
    if (offer !== null) this.#offers.release(offer)
  }

  abort(requestId: RequestId): void {
    this.#loads.abort(requestId)
  }

  onNotifications(notifications: readonly AgentNotification[]): void {
    for (const { message } of notifications) this.#onNotification(message)
  }

  /** Notifications don't come any more: producers tell the same over the association. */
  onBroken(): void {
    this.#loads.stop(closed('agent'))
  }

  /** Withdraws what is open and waits for the producers' word up to `deadlineMs`; then leaves no timer. */
  async shutdown(deadlineMs: number): Promise<void> {
    this.#loads.stop(closed('connector'))
    await this.#loadsEnd.wait(deadlineMs)
    this.#heartbeats.close()
    this.#offers.close()
    this.#links.close()
    this.#loads.close()
    await this.#init.finisher.settle()
    this.#holds.clear()
  }

  /** As a target the agent polls while a producer may need it. */
  #onChange(): void {
    const isExpected = this.#holds.isHeld || this.#loads.openCount > 0
    if (isExpected !== this.#isExpecting) {
      this.#isExpecting = isExpected
      this.#components.agent.expectNotifications(isExpected)
    }
    this.#loadsEnd.check()
  }

  #createLinks(): ProducerLinks {
    const { protocol, components, counters, options } = this.#init
    return new ProducerLinks({
      ...{ protocol, components, counters, handshakeTimeoutMs: options.handshakeTimeoutMs },
      introduce: (identity) => this.#introduce(identity),
      listener: {
        onHandshake: (identity, rank) =>
          this.#holds.start(wireUpOf(identity, rank), protocolLimits.wireUpTimeoutMs),
        onReady: (link) => {
          this.#connected.add(link)
          this.#countConnections()
          this.#heartbeats.start(link)
          if (this.#init.claimsAtOnce === true) {
            void this.#heartbeats.ask(link, this.#offers.keptOver(link))
          }
          this.#loads.parts.onReady(link)
          this.#offers.onReady(link)
        },
        onFailed: (key, error) => {
          this.#loads.parts.onFailed(key, error)
          this.#offers.onFailed(key)
        },
        onEnd: (link) => {
          this.#connected.delete(link)
          this.#countConnections()
          this.#heartbeats.stop(link)
          this.#loads.parts.onSilence(link, peerUnavailable(link.identity.engineId))
          this.#offers.onEnd(link)
        },
      },
    })
  }

  #countConnections(): void {
    this.#components.metrics.set('kv_connections_open', this.#connected.size)
  }

  #heartbeatSource(): ConstructorParameters<typeof Heartbeats>[0]['source'] {
    return {
      keptOver: (link) => this.#offers.keptOver(link),
      registeredOver: (link) => this.#loads.parts.registeredOver(link),
      onSilence: (link, error) => this.#loads.parts.onSilence(link, error),
      onWork: ({ identity }) => this.#loads.noteWork(identity.engineId),
      onHeld: (link, transferId) => {
        if (this.#loads.isStuck(link.identity.engineId)) this.#offers.giveUp(transferId)
      },
      onForgotten: (part, error) => {
        if (part.state.kind === 'registered') {
          this.#loads.parts.dispatch(part, { kind: 'silence', error })
        }
      },
    }
  }

  #introduce(identity: PeerIdentity): HandshakeRequest {
    const { rank, facts, agentMetadata, blockTable } = this.#init
    const { agent } = this.#components
    const token = this.#tokens.issue(identity)
    return { rank, facts, agentName: agent.name, agentMetadata, blockTable, token }
  }

  #listen(): void {
    const answers: Partial<Record<MessageKind, (body: Uint8Array, peer: PeerIdentity) => void>> = {
      wired: (body, peer) => {
        const rank = decodeSpeaker(body, messageKinds.wired, peer.engineId)
        this.#holds.end(wireUpOf(peer, rank))
      },
      done: (body, peer) => this.#loads.parts.onDone(decodeDone(body, peer.engineId), peer),
      failed: (body, peer) =>
        this.#loads.parts.onProducerFailed(decodeFailed(body, peer.engineId), peer),
    }
    const { sideChannel } = this.#components
    const { protocol, rank: ownRank } = this.#init
    for (const [name, answer] of Object.entries(answers)) {
      const kind = kindOf(protocol.name, name as MessageKind, ownRank)
      sideChannel.handle(kind, (body, { peer }: Association) => {
        try {
          answer(body, peer)
          return encodeEmpty()
        } catch (error) {
          if (ConnectorError.isInstance(error)) this.#refused(name, error.message)
          throw error
        }
      })
    }
  }

  #onNotification(message: Uint8Array): void {
    try {
      const { token, loadId } = decodeWriteDone(message)
      const peer = this.#tokens.identify(token)
      if (peer === null) this.#refused('notification', 'unknown token')
      else if (!this.#loads.parts.onWritten(loadId, peer)) this.#counters.add('notificationsLate')
    } catch (error) {
      // Anybody on the network can send one: malformed ones are counted, never thrown.
      if (!ConnectorError.isInstance(error)) throw error
      this.#refused('notification', error.message)
    }
  }

  #refused(where: string, reason: string): void {
    this.#counters.add('messagesRefused')
    this.#components.metrics.add('kv_messages_refused_total', 1, { where })
    const message = `message refused: ${reason}`
    // Anybody can send notifications: they must not fill the log.
    if (where === 'notification') this.#components.logger.debug(message, { where })
    else this.#components.logger.warn(message, { where })
  }
}

const wireUpOf = ({ engineId }: PeerIdentity, rank: number): string =>
  JSON.stringify(['wire-up', engineId, rank])
