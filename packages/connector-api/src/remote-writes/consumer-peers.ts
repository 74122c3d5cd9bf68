/**
 * The consumers that a producer rank may write to, one record per rank of each engine, from its handshake
 * until it is gone and no WRITE to it is open. Owned by producer-worker.ts.
 */
import {
  ConnectorError,
  type AnyConnectorError,
  type Association,
  type BlockTableHandle,
  type PeerHandle,
  type PeerIdentity,
  type WorkerComponents,
} from '../index.ts'
import { asConnectorError, within, type PeerFacts } from '../protocol/index.ts'
import type { HandshakeRequest } from './handshake-messages.ts'
import { encodeSpeaker, kindOf } from './messages.ts'

/** One life of one rank of a consumer. */
export interface ConsumerPeer {
  readonly identity: PeerIdentity
  readonly rank: number
  /** Of its agent: one name, one peer. */
  readonly agentName: string
  readonly facts: PeerFacts
  readonly peer: PeerHandle
  readonly table: BlockTableHandle
  readonly blockCount: number
  /** Of its latest handshake: a consumer of many producers may have forgotten the one before. */
  token: Uint8Array
  /** Null once it ended: news for this consumer is lost then, and it asks by itself. */
  association: Association | null
  isWired: boolean
}

export interface ConsumerPeersOptions {
  readonly components: WorkerComponents
  /** The protocol's name. */
  readonly protocol: string
  /** Of the producer. */
  readonly rank: number
  /** Its association ended, or a new life took its place: what it waits for is given up. */
  readonly onGone: (peer: ConsumerPeer) => void
  readonly hasOpenWrites: (peer: ConsumerPeer) => boolean
}

export class ConsumerPeers {
  readonly #init: ConsumerPeersOptions
  readonly #components: WorkerComponents
  readonly #peers = new Map<string, ConsumerPeer>()
  /** One after the other for each rank of an engine: the agent has one peer of a name. */
  readonly #works = new Map<string, Promise<unknown>>()

  constructor(init: ConsumerPeersOptions) {
    this.#init = init
    this.#components = init.components
    init.components.sideChannel.onAssociationEnd((association) => this.#associationEnd(association))
  }

  /** The rank that speaks in this association; null before its handshake. */
  of({ engineId, incarnation }: PeerIdentity, rank: number): ConsumerPeer | null {
    const known = this.#peers.get(keyOf(engineId, rank))
    return known?.identity.incarnation === incarnation ? known : null
  }

  /** @throws ConnectorError ERR_KV_UNAUTHORISED, or as `TransferAgent.addPeer` and `importBlockTable`; then no peer is left. */
  introduce(request: HandshakeRequest, association: Association): Promise<void> {
    const key = keyOf(association.peer.engineId, request.rank)
    const isTaken = [...this.#peers].some(
      ([other, { agentName }]) => other !== key && agentName === request.agentName,
    )
    // Adding it would make the handles of the one that has this name stale.
    if (isTaken) return Promise.reject(nameTaken(request.agentName))
    return this.#inTurn(key, () => this.#introduce(key, request, association))
  }

  /** A WRITE to it ended done: the consumer need not poll for the wire-up any more. */
  wired(peer: ConsumerPeer): void {
    if (peer.isWired) return
    peer.isWired = true
    peer.association?.send(
      kindOf(this.#init.protocol, 'wired', peer.rank),
      encodeSpeaker(this.#init.rank),
    )
  }

  /** A WRITE to it has ended: one that is gone is forgotten with its last. */
  checkIdle(peer: ConsumerPeer): void {
    if (peer.association !== null || this.#init.hasOpenWrites(peer)) return
    const key = keyOf(peer.identity.engineId, peer.rank)
    if (this.#peers.get(key) !== peer) return
    this.#peers.delete(key)
    void this.#inTurn(key, () => this.#remove(peer))
  }

  /** Removes every peer, whatever is open; an agent that does not answer is waited for up to `deadlineMs`. */
  async close(deadlineMs: number): Promise<void> {
    const peers = [...this.#peers.entries()]
    this.#peers.clear()
    for (const [key, peer] of peers) void this.#inTurn(key, () => this.#remove(peer))
    const { clock, logger } = this.#components
    const removed = Promise.all(this.#works.values())
    if (await within(clock, deadlineMs, removed)) return
    logger.warn('peers are not removed: the agent does not answer', { peers: peers.length })
  }

  async #introduce(
    key: string,
    request: HandshakeRequest,
    association: Association,
  ): Promise<void> {
    const known = this.#peers.get(key)
    if (known?.identity.incarnation === association.peer.incarnation) {
      known.association = association
      known.token = request.token
    } else {
      if (known !== undefined) await this.#replace(key, known)
      this.#peers.set(key, await this.#add(request, association))
    }
    // It may have ended meanwhile.
    if (!association.isOpen) this.#associationEnd(association)
  }

  /** A new life of it is here. */
  #replace(key: string, known: ConsumerPeer): Promise<void> {
    this.#peers.delete(key)
    known.association = null
    this.#init.onGone(known)
    return this.#remove(known)
  }

  async #add(request: HandshakeRequest, association: Association): Promise<ConsumerPeer> {
    const { agent } = this.#components
    const { rank, facts, token, agentMetadata: metadata, agentName: expectedName } = request
    const peer = await agent.addPeer({ metadata, expectedName })
    try {
      const table = agent.importBlockTable(peer, request.blockTable)
      const { blockCount } = agent.describeBlockTable(table)
      const identity = association.peer
      const common = {
        identity,
        rank,
        agentName: expectedName,
        facts,
        peer,
        table,
        blockCount,
        token,
      }
      return { ...common, association, isWired: false }
    } catch (cause) {
      await agent.removePeer(peer)
      throw cause
    }
  }

  #associationEnd(association: Association): void {
    for (const peer of [...this.#peers.values()]) {
      if (peer.association !== association) continue
      peer.association = null
      this.#init.onGone(peer)
      this.checkIdle(peer)
    }
  }

  async #remove({ peer, identity }: ConsumerPeer): Promise<void> {
    try {
      await this.#components.agent.removePeer(peer)
    } catch (cause) {
      const context = { operation: 'remove peer', peer: identity.engineId }
      this.#components.logger.warn(asConnectorError(cause, context).message)
    }
  }

  #inTurn<T>(key: string, work: () => Promise<T>): Promise<T> {
    const before = this.#works.get(key) ?? Promise.resolve()
    const result = before.then(work, work)
    const done = result.then(
      () => undefined,
      () => undefined,
    )
    this.#works.set(key, done)
    void done.then(() => {
      if (this.#works.get(key) === done) this.#works.delete(key)
    })
    return result
  }
}

function nameTaken(name: string): AnyConnectorError {
  const reason = `the agent ${name} is another engine's`
  return new ConnectorError('ERR_KV_UNAUTHORISED', reason, { reason })
}

const keyOf = (engineId: string, rank: number): string => JSON.stringify([engineId, rank])
