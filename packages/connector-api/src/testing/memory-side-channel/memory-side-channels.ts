/**
 * The SideChannel port for many engines of one process, on any clock: a network of listeners and
 * associations with latency, and the faults of a real one. As over TCP, messages of one direction stay
 * in order, a partition only delays, and a lost connection loses what was in flight.
 */
import type { Clock } from '../../clock.ts'
import { ConnectorError } from '../../errors.ts'
import type { AnyConnectorError } from '../../errors.ts'
import type { EngineId } from '../../ids.ts'
import { limits } from '../../limits.ts'
import type { Random } from '../../random.ts'
import type { Association, PeerAddress, PeerIdentity, SideChannel } from '../../side-channel.ts'
import type { SideChannelHandler } from '../../side-channel.ts'
import { MemoryAssociation, unavailable } from './association.ts'
import type { AssociationOwner } from './association.ts'
import { Pipe } from './pipe.ts'

export interface MemorySideChannelFaults {
  /** Connections between the two are lost with everything in flight; each end hears by itself, later. */
  breakAssociations(a: EngineId, b: EngineId): void
  /** Nothing arrives and nobody is told, until `heal`; then what waited arrives. */
  partition(a: EngineId, b: EngineId): void
  heal(a: EngineId, b: EngineId): void
  /** SIGKILL: it hears nothing more; its peers lose their connections, each a little later. */
  kill(engineId: EngineId): void
  /** SIGSTOP: what is sent to it waits until `resume`. */
  stop(engineId: EngineId): void
  resume(engineId: EngineId): void
  /** Added to every message, at random up to this. */
  extraDelayMs: number
}

export interface MemorySideChannels {
  /** A side channel that listens. @throws RangeError when the port is taken, TypeError when the engine lives. */
  open(identity: PeerIdentity, options?: { readonly port?: number }): SideChannel
  readonly faults: MemorySideChannelFaults
}

export interface MemorySideChannelsOptions {
  readonly clock: Clock
  readonly random: Random
  /** One way. Default 0.04. */
  readonly latencyMs?: number
}

const host = '127.0.0.1'
const firstPort = 5_600
const pairKey = (a: EngineId, b: EngineId): string => [a, b].sort().join(' ')

class Network {
  readonly clock: Clock
  readonly random: Random
  readonly latencyMs: number
  readonly listening = new Map<number, MemoryChannel>()
  readonly partitioned = new Set<string>()
  readonly stopped = new Set<EngineId>()
  /** Both directions of every open association. */
  readonly pipes = new Map<Pipe, string>()
  /** Calls that wait for a partition or a stopped listener. */
  readonly calls = new Set<() => void>()
  extraDelayMs = 0
  nextPort = firstPort

  constructor({ clock, random, latencyMs = 0.04 }: MemorySideChannelsOptions) {
    this.clock = clock
    this.random = random
    this.latencyMs = latencyMs
  }

  delayMs(): number {
    return this.latencyMs * (1 + this.random.uniform()) + this.extraDelayMs * this.random.uniform()
  }

  isBlocked(from: EngineId, to: EngineId): boolean {
    return this.stopped.has(to) || this.partitioned.has(pairKey(from, to))
  }

  createPipe(from: EngineId, to: EngineId): Pipe {
    const pipe = new Pipe({
      clock: this.clock,
      delayMs: () => this.delayMs(),
      isBlocked: () => this.isBlocked(from, to),
    })
    this.pipes.set(pipe, pairKey(from, to))
    return pipe
  }

  resume(): void {
    for (const pipe of this.pipes.keys()) pipe.resume()
    for (const call of [...this.calls]) call()
  }

  channelsOf(engineId: EngineId): MemoryChannel[] {
    return [...this.listening.values()].filter(({ identity }) => identity.engineId === engineId)
  }
}

class MemoryChannel implements SideChannel, AssociationOwner {
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
    const key = `${address.engineId} ${address.host} ${address.port}`
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
    const target = address.host === host ? this.#network.listening.get(address.port) : undefined
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

export function createMemorySideChannels(options: MemorySideChannelsOptions): MemorySideChannels {
  const network = new Network(options)

  /** Each of these ends loses its connection, at a time of its own. */
  function loseLater(associations: readonly MemoryAssociation[]): void {
    for (const association of associations) {
      const error = unavailable(association.peer.engineId, 'connection lost')
      network.clock.after(network.delayMs(), () => association.end(error))
    }
  }

  const endsOf = (owner: EngineId, peer: EngineId): MemoryAssociation[] =>
    network
      .channelsOf(owner)
      .flatMap(({ open }) => [...open].filter((end) => end.peer.engineId === peer))

  return {
    open(identity, { port } = {}) {
      if (network.channelsOf(identity.engineId).length > 0) {
        throw new TypeError(`engine ${identity.engineId} is alive`)
      }
      const chosen = port ?? network.nextPort++
      if (network.listening.has(chosen)) throw new RangeError(`port ${chosen} is taken`)
      const channel = new MemoryChannel(network, identity, chosen)
      network.listening.set(chosen, channel)
      return channel
    },
    faults: {
      breakAssociations(a, b) {
        for (const [pipe, pair] of network.pipes) if (pair === pairKey(a, b)) pipe.cut()
        loseLater([...endsOf(a, b), ...endsOf(b, a)])
      },
      partition(a, b) {
        network.partitioned.add(pairKey(a, b))
      },
      heal(a, b) {
        network.partitioned.delete(pairKey(a, b))
        network.resume()
      },
      kill(engineId) {
        const channels = network.channelsOf(engineId)
        if (channels.length === 0) throw new RangeError(`no engine ${engineId} lives`)
        for (const channel of channels) {
          for (const { peer } of channel.open) loseLater(endsOf(peer.engineId, engineId))
          channel.die()
        }
      },
      stop(engineId) {
        network.stopped.add(engineId)
      },
      resume(engineId) {
        network.stopped.delete(engineId)
        network.resume()
      },
      get extraDelayMs() {
        return network.extraDelayMs
      },
      set extraDelayMs(value) {
        network.extraDelayMs = value
      },
    },
  }
}
