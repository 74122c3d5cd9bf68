/**
 * The side channel of one engine in the in-memory network: its handlers, its associations, and calls to
 * others. As the real one it shares calls that are under way and reuses what it called itself.
 */
import type { Clock } from '../../clock.ts'
import { ConnectorError } from '../../errors.ts'
import type { AnyConnectorError } from '../../errors.ts'
import { limits } from '../../limits.ts'
import type { Association, PeerAddress, PeerIdentity, SideChannel } from '../../side-channel.ts'
import type { SideChannelHandler } from '../../side-channel.ts'
import { MemoryAssociation, unavailable } from './association.ts'
import type { AssociationOwner } from './association.ts'
import { host, placeOf } from './network.ts'
import type { Network } from './network.ts'

export class MemoryChannel implements SideChannel, AssociationOwner {
  readonly address: { readonly host: string; readonly port: number }
  readonly identity: PeerIdentity
  readonly clock: Clock
  readonly handlers = new Map<string, SideChannelHandler>()
  readonly open = new Set<MemoryAssociation>()
  isDead = false
  #isClosed = false
  readonly #network: Network
  readonly #endListeners: ((association: Association) => void)[] = []
  readonly #called = new Map<string, MemoryAssociation>()
  readonly #dialling = new Map<string, Promise<MemoryAssociation>>()

  constructor(network: Network, identity: PeerIdentity, port: number) {
    this.#network = network
    this.identity = identity
    this.clock = network.clock
    this.address = { host, port }
  }

  handle(kind: string, handler: SideChannelHandler): void {
    if (this.handlers.has(kind)) throw new TypeError(`${kind} has a handler already`)
    this.handlers.set(kind, handler)
  }

  onAssociationEnd(listener: (association: Association) => void): void {
    this.#endListeners.push(listener)
  }

  onEnd(association: MemoryAssociation): void {
    this.open.delete(association)
    for (const [key, called] of this.#called) if (called === association) this.#called.delete(key)
    // Not from inside `close()` or `send()` of the one whose listener this is.
    queueMicrotask(() => {
      for (const listener of this.#endListeners) listener(association)
    })
  }

  async connect(address: PeerAddress, options: { timeoutMs?: number } = {}): Promise<Association> {
    if (this.#isClosed) throw closedError()
    const key = `${address.engineId} ${placeOf(address.host)} ${address.port}`
    const existing = this.#called.get(key)
    if (existing !== undefined) return existing
    let dialled = this.#dialling.get(key)
    if (dialled === undefined) {
      dialled = this.#dial(address).finally(() => this.#dialling.delete(key))
      // Whoever asked may have given up; the call's failure is then nobody's concern.
      dialled.catch(() => {})
      this.#dialling.set(key, dialled)
      dialled.then(
        (association) => this.#called.set(key, association),
        () => {},
      )
    }
    const timeoutMs = options.timeoutMs ?? limits.sideChannelTimeoutMs
    const what = `association with engine ${address.engineId}`
    return this.#within(dialled, timeoutMs, what)
  }

  async close(): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#network.listening.delete(this.address.port)
    for (const association of [...this.open]) association.close()
  }

  /** Killed: from one moment to the next nothing happens here any more. */
  die(): void {
    this.isDead = true
    this.#isClosed = true
    this.#network.listening.delete(this.address.port)
    const error = unavailable(this.identity.engineId, 'killed')
    for (const association of [...this.open]) association.end(error)
  }

  /** Opens the end of an association here; an older life of the peer is over then. */
  admit(association: MemoryAssociation): void {
    const { engineId, incarnation } = association.peer
    for (const older of [...this.open]) {
      if (older.peer.engineId === engineId && older.peer.incarnation !== incarnation) {
        older.end(unavailable(engineId, 'came back with a new incarnation'))
      }
    }
    this.open.add(association)
  }

  async #within<T>(promise: Promise<T>, timeoutMs: number, what: string): Promise<T> {
    return new Promise((resolve, reject) => {
      const timer = this.clock.after(timeoutMs, () => {
        const details = { what, deadlineMs: timeoutMs }
        reject(new ConnectorError('ERR_KV_DEADLINE', `no ${what} in ${timeoutMs} ms`, details))
      })
      promise.then(resolve, reject).finally(() => timer.stop())
    })
  }

  #dial(address: PeerAddress): Promise<MemoryAssociation> {
    const { associationCountMax: max } = limits
    if (this.open.size + this.#dialling.size >= max) {
      const details = { limit: 'associationCountMax', value: max + 1, max }
      throw new ConnectorError('ERR_KV_LIMIT', `more than ${max} associations`, details)
    }
    let call = (): void => {}
    const answered = new Promise<MemoryAssociation>((resolve, reject) => {
      call = () => {
        if (this.isDead) return
        const { engineId } = address
        if (this.#network.isBlocked(this.identity.engineId, engineId)) return
        this.#network.calls.delete(call)
        const error = this.#refusal(address)
        if (error !== null) reject(error)
        else resolve(this.#establish(this.#network.listening.get(address.port)!))
      }
      this.#network.calls.add(call)
      // To the peer and back.
      this.clock.after(this.#network.delayMs() + this.#network.delayMs(), () => call())
    })
    const what = `association with engine ${address.engineId}`
    const { handshakeTimeoutMs } = limits
    return this.#within(answered, handshakeTimeoutMs, what).finally(() =>
      this.#network.calls.delete(call),
    )
  }

  #refusal(address: PeerAddress): AnyConnectorError | null {
    const target =
      placeOf(address.host) === host ? this.#network.listening.get(address.port) : undefined
    if (this.#isClosed) return closedError()
    if (target === undefined) return unavailable(address.engineId, 'nobody listens')
    const { engineId } = target.identity
    if (engineId === address.engineId) {
      const isFull = target.open.size >= limits.associationCountMax
      return isFull ? unavailable(engineId, 'takes no more associations') : null
    }
    const peer = `${address.host}:${address.port}`
    const details = { peer, field: 'engineId', local: address.engineId, remote: engineId }
    const message = `engine ${engineId} answers at ${peer}, expected ${address.engineId}`
    return new ConnectorError('ERR_KV_PEER_INCOMPATIBLE', message, details) as AnyConnectorError
  }

  #establish(target: MemoryChannel): MemoryAssociation {
    const here = this.identity.engineId
    const there = target.identity.engineId
    const forth = this.#network.createPipe(here, there)
    const back = this.#network.createPipe(there, here)
    let endCount = 0
    const onGone = (): void => {
      endCount += 1
      if (endCount < 2) return
      this.#network.pipes.delete(forth)
      this.#network.pipes.delete(back)
    }
    const own = new MemoryAssociation({ owner: this, peer: target.identity, out: forth, onGone })
    const other = new MemoryAssociation({ owner: target, peer: this.identity, out: back, onGone })
    own.attach(other)
    other.attach(own)
    this.admit(own)
    target.admit(other)
    return own
  }
}

const closedError = (): AnyConnectorError =>
  new ConnectorError('ERR_KV_CLOSED', 'side channel is closed', {
    what: 'side channel',
  }) as AnyConnectorError
