/**
 * Answers what consumers ask a producer rank on the side channel: handshakes, heartbeats, registrations,
 * withdrawals, releases. Checks form, facts and who asks; what is known of a transfer the protocol's own
 * table says. Owned by a connector's worker half; runs on the engine's thread.
 */
import {
  ConnectorError,
  type AnyConnectorError,
  type Association,
  type WorkerComponents,
} from '../index.ts'
import {
  closed,
  compareFacts,
  matchingRanks,
  peerUnavailable,
  quarantineError,
  rankMismatch,
  type PeerFacts,
} from '../protocol/index.ts'
import type { ConsumerPeer, ConsumerPeers } from './consumer-peers.ts'
import { decodeHandshakeRequest, encodeHandshakeReply } from './handshake-messages.ts'
import {
  decodeHeartbeat,
  encodeHeartbeatReply,
  type TransferStanding,
} from './heartbeat-messages.ts'
import {
  decodeRegistration,
  decodeRelease,
  decodeWithdraw,
  encodeEmpty,
  encodeRegisterReply,
  encodeWithdrawReply,
  kindOf,
  type MessageKind,
  type Registration,
  type Release,
  type WithdrawQuestion,
  type WithdrawReply,
  type WriteProtocol,
} from './messages.ts'
import type { WriteCounters } from './write-counters.ts'
import type { SourceCache } from './write-posts.ts'

/** What a protocol says of its transfers. */
export interface TransferDesk {
  /** How it stands for this consumer rank; it is kept for a while longer. */
  renew(transferId: string, peer: ConsumerPeer): TransferStanding
  /** Why it isn't taken on, or null. */
  register(registration: Registration, peer: ConsumerPeer): AnyConnectorError | null
  /** Answers once nothing writes into those blocks, or that it can't say so yet. */
  withdraw(question: WithdrawQuestion, from: Pick<ConsumerPeer, 'identity'>): Promise<WithdrawReply>
  /** That consumer rank needs nothing of it. */
  release(release: Release, peer: ConsumerPeer): void
}

export interface ProducerAnswersOptions {
  readonly protocol: WriteProtocol
  readonly components: WorkerComponents
  readonly counters: WriteCounters
  readonly facts: PeerFacts
  readonly cache: SourceCache
  /** How long a consumer's word keeps what it waits for. */
  readonly leaseDurationMs: number
  readonly peers: ConsumerPeers
  readonly desk: TransferDesk
  readonly quarantinedBlockCount: () => number
  /** Prompts are computed here, or written: what waits for room here gets it by itself. */
  readonly isAtWork: () => boolean
}

type Answer = (body: Uint8Array, from: Association) => Uint8Array | Promise<Uint8Array>

export class ProducerAnswers {
  readonly #init: ProducerAnswersOptions
  #isClosed = false

  /** Answers from now on. */
  constructor(init: ProducerAnswersOptions) {
    this.#init = init
    this.#listen()
  }

  /** No consumer is let in any more. Withdrawals are answered all the same. */
  stop(): void {
    this.#isClosed = true
  }

  #listen(): void {
    const { protocol, cache, components } = this.#init
    const answers: Partial<Record<MessageKind, Answer>> = {
      handshake: this.#handshake,
      heartbeat: this.#heartbeat,
      register: this.#register,
      withdraw: this.#withdraw,
      release: this.#release,
    }
    for (const [name, answer] of Object.entries(answers)) {
      const kind = kindOf(protocol.name, name as MessageKind, cache.rank)
      components.sideChannel.handle(kind, (body, from) => {
        try {
          return answer(body, from)
        } catch (error) {
          if (ConnectorError.isInstance(error)) this.#refused(name, error.message)
          throw error
        }
      })
    }
  }

  readonly #handshake: Answer = (body, from) => {
    if (this.#isClosed) throw closed('connector')
    const { engineId } = from.peer
    const { protocol, facts, cache, peers, components, leaseDurationMs } = this.#init
    const request = decodeHandshakeRequest(body, engineId)
    const mismatch = compareFacts(facts, request.facts, protocol.capabilities)
    if (mismatch !== null) {
      // The consumer finds and names the same difference, with the values the right way round.
      this.#refused('handshake', `${mismatch.field} differs from ${engineId}`)
      return encodeHandshakeReply({ facts, grant: null })
    }
    const ranks = matchingRanks(cache.rank, facts.tpSize, request.facts.tpSize)
    // Another one has none of this rank's heads: a WRITE for it would read other blocks.
    if (!ranks.includes(request.rank)) throw rankMismatch(engineId, request.rank, ranks)
    const process = components.processes?.self ?? null
    const grant = { leaseDurationMs, process }
    return peers.introduce(request, from).then(() => encodeHandshakeReply({ facts, grant }))
  }

  readonly #heartbeat: Answer = (body, from) => {
    const { rank, transferIds } = decodeHeartbeat(body)
    const { peers, desk, isAtWork } = this.#init
    const peer = peers.of(from.peer, rank)
    const standings = transferIds.map((id) => (peer === null ? 'unknown' : desk.renew(id, peer)))
    return encodeHeartbeatReply({ isAtWork: isAtWork(), standings })
  }

  readonly #register: Answer = (body, from) => {
    const { engineId } = from.peer
    const { peers, desk, cache, counters, quarantinedBlockCount } = this.#init
    const registration = decodeRegistration(body, engineId)
    const peer = peers.of(from.peer, registration.rank)
    const { blockCount } = cache.caches.regions[0]!
    const refusal =
      peer === null
        ? peerUnavailable(engineId)
        : (quarantineError(quarantinedBlockCount(), blockCount) ??
          desk.register(registration, peer))
    counters.add(refusal === null ? 'registrationsAccepted' : 'registrationsRefused')
    return encodeRegisterReply(refusal)
  }

  /** Answered also when closed: nothing else ends the consumer's doubt. */
  readonly #withdraw: Answer = async (body, from) => {
    const question = decodeWithdraw(body, from.peer.engineId)
    const reply = await this.#init.desk.withdraw(question, { identity: from.peer })
    this.#init.counters.add('withdrawalsAnswered')
    return encodeWithdrawReply(reply)
  }

  readonly #release: Answer = (body, from) => {
    const release = decodeRelease(body, from.peer.engineId)
    const { peers, desk } = this.#init
    const peer = peers.of(from.peer, release.rank)
    if (peer !== null) desk.release(release, peer)
    return encodeEmpty()
  }

  #refused(where: string, reason: string): void {
    const { counters, components } = this.#init
    counters.add('messagesRefused')
    components.metrics.add('kv_messages_refused_total', 1, { where })
    components.logger.warn(`message refused: ${reason}`, { where })
  }
}
