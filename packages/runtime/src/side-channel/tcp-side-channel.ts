/**
 * The SideChannel port over TCP, under mutual TLS where configured: one listener, associations in both directions, one handler table. Calls
 * to a peer are shared, what ends is reported once, and everything open is bounded and closed at the end.
 * Runs on the JS thread of the worker half that owns it.
 */
import type { Socket } from 'node:net'
import {
  ConnectorError,
  limits,
  type AnyConnectorError,
  type Association,
  type Clock,
  type Logger,
  type Metrics,
  type PeerAddress,
  type PeerConfig,
  type PeerIdentity,
  type Random,
  type SideChannel,
  type SideChannelConfig,
  type SideChannelHandler,
} from '@kvferry/connector-api'
import { TcpAssociation } from './association.ts'
import { Connection } from './connection.ts'
import { dial } from './dial.ts'
import { establishPeer } from './establish-peer.ts'
import { isKind } from './frame.ts'
import { isSamePlace, refuseAddress, type AdmissionPolicy } from './hello.ts'
import { sideChannelLimits } from './limits.ts'
import { listen, type Listening } from './listen.ts'
import { openTransport } from './open-transport.ts'
import { closedError, unauthorised } from './peer-errors.ts'
import { farewell } from './refusal.ts'
import type { Transport } from './transport.ts'
import { withTimeout } from './with-timeout.ts'

export interface SideChannelOptions {
  readonly config: SideChannelConfig
  readonly identity: PeerIdentity
  /** Whom to talk to; null = any loopback peer. */
  readonly peers: readonly PeerConfig[] | null
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
  readonly metrics: Metrics
}

interface Dialling {
  readonly promise: Promise<TcpAssociation>
  readonly abort: AbortController
}

const addressKey = ({ engineId, host, port }: PeerAddress): string => `${engineId} ${host} ${port}`

const limitError = (limit: string, max: number, what: string): AnyConnectorError =>
  new ConnectorError('ERR_KV_LIMIT', `more than ${max} ${what}`, { limit, value: max + 1, max })

class TcpSideChannel implements SideChannel {
  readonly address: Listening['address']
  readonly identity: PeerIdentity
  readonly #options: SideChannelOptions
  readonly #server: Listening['server']
  readonly #transport: Transport
  readonly #policy: AdmissionPolicy
  readonly #handlers = new Map<string, SideChannelHandler>()
  readonly #endListeners: ((association: Association) => void)[] = []
  /** Every association that is open, whoever called. */
  readonly #open = new Set<TcpAssociation>()
  /** Those that we called, with the address; one place per engine. */
  readonly #called = new Map<TcpAssociation, PeerAddress>()
  readonly #dialling = new Map<string, Dialling>()
  /** Accepted, and not admitted yet. */
  readonly #handshaking = new Set<Socket>()
  /** Every TCP connection of ours, to its end, with the promise of that end. */
  readonly #sockets = new Map<Socket, Promise<void>>()
  #closing: Promise<void> | null = null

  constructor(options: SideChannelOptions, { server, address }: Listening, transport: Transport) {
    const { identity, peers } = options
    this.#options = options
    this.#server = server
    this.#transport = transport
    this.#policy = { identity, peers, isLoopbackOnly: peers === null }
    this.identity = identity
    this.address = address
    server.on('connection', (socket) => this.#onConnection(socket))
    server.on('drop', () => this.#countRefused('side-channel-connection'))
    server.on('error', (error) =>
      options.logger.error('listener failed', { reason: error.message }),
    )
  }

  handle(kind: string, handler: SideChannelHandler): void {
    if (!isKind(kind)) throw new TypeError(`not a message kind: ${JSON.stringify(kind)}`)
    if (this.#handlers.has(kind)) throw new TypeError(`${kind} has a handler already`)
    this.#handlers.set(kind, handler)
  }

  onAssociationEnd(listener: (association: Association) => void): void {
    this.#endListeners.push(listener)
  }

  async connect(address: PeerAddress, options: { timeoutMs?: number } = {}): Promise<Association> {
    const { host, port, engineId } = address
    if (!Number.isInteger(port) || port < 1 || port > 65_535) {
      throw new RangeError(`port must be an integer from 1 to 65535, got ${port}`)
    }
    if (this.#closing !== null) throw closedError()
    const refusal = refuseAddress(address, this.#policy)
    if (refusal !== null) throw refusal
    const existing = this.#calledAt(address)
    if (existing !== null) return existing
    const { promise } = this.#dialling.get(addressKey(address)) ?? this.#dial(address)
    return withTimeout(promise, {
      clock: this.#options.clock,
      timeoutMs: options.timeoutMs ?? limits.sideChannelTimeoutMs,
      what: `association with engine ${engineId} at ${host}:${port}`,
    })
  }

  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  /**
   * The association with that engine, or null. While there is one, no other place is called under the
   * engine's name: addresses come out of handoffs, and whoever answered there would end the true one.
   * @throws ConnectorError ERR_KV_UNAUTHORISED for another address than the engine's.
   */
  #calledAt(address: PeerAddress): TcpAssociation | null {
    for (const [association, known] of this.#called) {
      if (known.engineId !== address.engineId) continue
      if (isSamePlace(known, address)) return association
      const { engineId, host, port } = address
      throw unauthorised(
        `engine "${engineId}" is connected at ${known.host}:${known.port}: ${host}:${port} is not called under its name`,
      )
    }
    return null
  }

  /** One attempt for all who want this peer now; each of them waits as long as it likes. */
  #dial(address: PeerAddress): Dialling {
    const key = addressKey(address)
    const { associationCountMax } = limits
    if (this.#open.size + this.#dialling.size >= associationCountMax) {
      throw limitError('associationCountMax', associationCountMax, 'associations')
    }
    const abort = new AbortController()
    const promise = dial({
      ...address,
      policy: this.#policy,
      transport: this.#transport,
      clock: this.#options.clock,
      timeoutMs: limits.handshakeTimeoutMs,
      signal: abort.signal,
      onConnected: (socket) => this.#track(socket),
      onOpen: (connection, peer) => {
        const association = this.#admit(connection, peer)
        this.#called.set(association, address)
        return association
      },
      onRefused: (place) => this.#countRefused(place),
    }).finally(() => this.#dialling.delete(key))
    // Whoever waited may have given up; the attempt's failure is then nobody's concern.
    promise.catch(() => {})
    const dialling = { promise, abort }
    this.#dialling.set(key, dialling)
    return dialling
  }

  #track(socket: Socket): void {
    const gone = new Promise<void>((resolve) => socket.once('close', () => resolve()))
    this.#sockets.set(socket, gone)
    void gone.then(() => this.#sockets.delete(socket))
  }

  #onConnection(socket: Socket): void {
    const { clock, logger } = this.#options
    const from = socket.remoteAddress ?? ''
    this.#track(socket)
    const full = this.#fullError()
    if (full !== null) {
      this.#countRefused('side-channel-connection')
      logger.warn('connection refused', { from, reason: full.message })
      return this.#turnAway(socket, full)
    }
    this.#handshaking.add(socket)
    establishPeer({
      socket,
      transport: this.#transport,
      policy: this.#policy,
      peerName: from,
      side: { kind: 'called' },
      clock,
      timeoutMs: sideChannelLimits.helloTimeoutMs,
      onOpen: (connection, peer) => {
        this.#handshaking.delete(socket)
        this.#admit(connection, peer)
      },
      onFailed: ({ error, refusedAt }) => {
        this.#handshaking.delete(socket)
        if (refusedAt === null) return
        this.#countRefused(refusedAt)
        logger.warn('peer refused', { from, reason: error.message })
      },
    })
  }

  /** With a word, unless that would take a TLS handshake: a crowd must not cost more than its sockets. */
  #turnAway(socket: Socket, error: AnyConnectorError): void {
    if (this.#transport.kind === 'plain') {
      return new Connection(socket, this.#options.clock).leave(farewell(error))
    }
    socket.on('error', () => {})
    socket.destroy()
  }

  /** Why no more may come in now, or null. Strangers count too, or a crowd of them would get past. */
  #fullError(): AnyConnectorError | null {
    const { associationCountMax } = limits
    const { handshakeCountMax } = sideChannelLimits
    if (this.#handshaking.size >= handshakeCountMax) {
      return limitError('handshakeCountMax', handshakeCountMax, 'connections without a hello')
    }
    const count = this.#open.size + this.#dialling.size + this.#handshaking.size
    if (count < associationCountMax) return null
    return limitError('associationCountMax', associationCountMax, 'associations')
  }

  #admit(connection: Connection, peer: PeerIdentity): TcpAssociation {
    const { clock, random, logger, metrics } = this.#options
    this.#endOlderIncarnations(peer)
    const association = new TcpAssociation({
      connection,
      peer,
      handlers: this.#handlers,
      clock,
      logger: logger.child({ peer: peer.engineId }),
      metrics,
      firstRequestId: Math.floor(random.uniform() * 2 ** 32),
      onEnd: (ended) => this.#onEnd(ended),
    })
    this.#open.add(association)
    return association
  }

  /** A new life of an engine proves that the old one is over, also where TCP hasn't noticed yet. */
  #endOlderIncarnations({ engineId, incarnation }: PeerIdentity): void {
    for (const association of [...this.#open]) {
      const { peer } = association
      if (peer.engineId !== engineId || peer.incarnation === incarnation) continue
      const message = `engine "${engineId}" came back with a new incarnation`
      this.#options.logger.warn(message, { old: peer.incarnation, new: incarnation })
      const details = { engineId, expected: incarnation, actual: peer.incarnation }
      association.refuse(new ConnectorError('ERR_KV_WRONG_EPOCH', message, details))
    }
  }

  #onEnd(association: TcpAssociation): void {
    this.#open.delete(association)
    this.#called.delete(association)
    // Not from inside `close()` or `send()` of the one whose listener this is.
    queueMicrotask(() => {
      for (const listener of this.#endListeners) listener(association)
    })
  }

  #countRefused(where: string): void {
    this.#options.metrics.add('kv_messages_refused_total', 1, { where })
  }

  async #close(): Promise<void> {
    const noMoreCalls = new Promise<void>((resolve) => this.#server.close(() => resolve()))
    for (const { abort } of this.#dialling.values()) abort.abort()
    for (const association of [...this.#open]) association.close()
    for (const socket of this.#handshaking) socket.destroy()
    this.#transport.close()
    await Promise.all([noMoreCalls, ...this.#sockets.values()])
  }
}

/**
 * A side channel that listens when the promise resolves.
 * @throws ConnectorError ERR_KV_CONFIG when the address can't or mustn't be bound, or a certificate can't
 *   be used.
 */
export async function createSideChannel(options: SideChannelOptions): Promise<SideChannel> {
  const transport = await openTransport(options)
  try {
    return new TcpSideChannel(options, await listen(options.config), transport)
  } catch (error) {
    transport.close()
    throw error
  }
}
