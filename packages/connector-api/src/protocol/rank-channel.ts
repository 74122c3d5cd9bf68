/**
 * An engine's side channel as the way to and from one rank. All ranks of an engine share the channel and its
 * associations, so every kind of message carries the rank that it is for (none for rank 0).
 */
import type {
  Association,
  PeerAddress,
  PeerIdentity,
  SideChannel,
  SideChannelHandler,
} from '../index.ts'

/** What it hears is for rank `tpRank` of this engine; what it says is for that rank of others. */
export function rankChannel(channel: SideChannel, tpRank: number): SideChannel {
  return tpRank === 0 ? channel : new RankChannel(channel, tpRank)
}

/** The ways to the ranks of other engines; each is made once, so that its associations can be told apart. */
export class RankChannels {
  readonly #channel: SideChannel
  readonly #onAssociationEnd: (association: Association) => void
  readonly #byRank = new Map<number, SideChannel>()

  constructor(channel: SideChannel, onAssociationEnd: (association: Association) => void) {
    this.#channel = channel
    this.#onAssociationEnd = onAssociationEnd
  }

  to(rank: number): SideChannel {
    const known = this.#byRank.get(rank)
    if (known !== undefined) return known
    const channel = rankChannel(this.#channel, rank)
    channel.onAssociationEnd(this.#onAssociationEnd)
    this.#byRank.set(rank, channel)
    return channel
  }
}

class RankChannel implements SideChannel {
  readonly #channel: SideChannel
  readonly #tpRank: number
  /** An association is told apart by identity, so each has one view. */
  readonly #views = new WeakMap<Association, RankAssociation>()

  constructor(channel: SideChannel, tpRank: number) {
    this.#channel = channel
    this.#tpRank = tpRank
  }

  get address(): SideChannel['address'] {
    return this.#channel.address
  }

  get identity(): PeerIdentity {
    return this.#channel.identity
  }

  handle(kind: string, handler: SideChannelHandler): void {
    this.#channel.handle(kindOfRank(kind, this.#tpRank), (body, from) =>
      handler(body, this.#view(from)),
    )
  }

  async connect(address: PeerAddress, options?: { timeoutMs?: number }): Promise<Association> {
    return this.#view(await this.#channel.connect(address, options))
  }

  onAssociationEnd(listener: (association: Association) => void): void {
    this.#channel.onAssociationEnd((association) => listener(this.#view(association)))
  }

  /** The channel is the engine's. */
  async close(): Promise<void> {}

  #view(association: Association): RankAssociation {
    const known = this.#views.get(association)
    if (known !== undefined) return known
    const view = new RankAssociation(association, this.#tpRank)
    this.#views.set(association, view)
    return view
  }
}

class RankAssociation implements Association {
  readonly #association: Association
  readonly #tpRank: number

  constructor(association: Association, tpRank: number) {
    this.#association = association
    this.#tpRank = tpRank
  }

  get peer(): PeerIdentity {
    return this.#association.peer
  }

  get isOpen(): boolean {
    return this.#association.isOpen
  }

  request(kind: string, body: Uint8Array, options?: { timeoutMs?: number }): Promise<Uint8Array> {
    return this.#association.request(kindOfRank(kind, this.#tpRank), body, options)
  }

  send(kind: string, body: Uint8Array): void {
    this.#association.send(kindOfRank(kind, this.#tpRank), body)
  }

  flush(): void {
    this.#association.flush()
  }

  close(): void {
    this.#association.close()
  }
}

/** The kind of a message to one rank of an engine: all ranks share its side channel. */
export const kindOfRank = (kind: string, tpRank: number): string =>
  tpRank === 0 ? kind : `${kind}/${tpRank}`
