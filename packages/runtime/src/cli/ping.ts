/**
 * `kvferry ping HOST:PORT`: becomes a peer of a running engine for one hello, to see who answers, whether it
 * lets us in, and how long that takes. Under a name of its own, never a running engine's: a second one with
 * the name of a connected peer would end that peer's association. With certificates the name is theirs.
 */
import {
  asEngineId,
  asIncarnation,
  ConnectorError,
  silentLogger,
  WIRE_VERSION,
  type AnyConnectorError,
  type Clock,
  type EngineId,
  type PeerIdentity,
  type TlsFiles,
} from '@kvferry/connector-api'
import { isLoopbackHost } from '../loopback.ts'
import { dial } from '../side-channel/dial.ts'
import { encodeFrame } from '../side-channel/frame.ts'
import { TlsTransport } from '../side-channel/tls-transport.ts'
import { plainTransport, type Transport } from '../side-channel/transport.ts'
import { createSystemClock } from '../system-clock.ts'
import { createSystemRandom } from '../system-random.ts'
import { CredentialStore } from '../tls/credential-store.ts'
import { loadCredentials } from '../tls/credentials.ts'
import {
  exitCodes,
  report,
  UsageError,
  type CliStreams,
  type ExitCode,
  type JsonOption,
} from './report.ts'

export interface PingOptions extends JsonOption {
  readonly engineId?: string
  readonly timeout: number
  readonly insecure?: boolean
  readonly ca?: string
  readonly cert?: string
  readonly key?: string
}

interface Address {
  readonly host: string
  readonly port: number
}

interface Answer {
  readonly engineId: string
  readonly incarnation: string
  readonly connectMs: number
  readonly roundTripMs: number
}

/** @throws UsageError unless it is HOST:PORT, with brackets around an IPv6 address. */
export function parseAddress(text: string): Address {
  const match = /^(?:\[([0-9a-fA-F:.]+)\]|([^:[\]\s]+)):(\d{1,5})$/.exec(text)
  const host = match?.[1] ?? match?.[2]
  const port = Number(match?.[3])
  if (host === undefined || port < 1 || port > 65_535) {
    throw new UsageError(`"${text}" is no address: write HOST:PORT, for example 127.0.0.1:5600`)
  }
  return { host, port }
}

/** @throws UsageError for one or two of the three files. */
function tlsFiles({ ca, cert, key }: PingOptions): TlsFiles | null {
  if (ca !== undefined && cert !== undefined && key !== undefined) return { ca, cert, key }
  if (ca === undefined && cert === undefined && key === undefined) return null
  throw new UsageError('--ca, --cert and --key go together: name all three files')
}

/** @throws ConnectorError ERR_KV_CONFIG for files that can't be used. */
async function openTransport(
  files: TlsFiles | null,
  ownName: string,
  clock: Clock,
): Promise<{ readonly transport: Transport; readonly engineId: EngineId }> {
  if (files === null) return { transport: plainTransport, engineId: asEngineId(ownName) }
  const { engineId } = await loadCredentials(files, null)
  const store = await CredentialStore.open({ files, engineId, clock, logger: silentLogger })
  return { transport: new TlsTransport(store, engineId), engineId }
}

async function sayHello(
  address: Address,
  files: TlsFiles | null,
  options: PingOptions,
): Promise<Answer> {
  const clock = createSystemClock()
  const id = Buffer.from(createSystemRandom().bytes(8)).toString('hex')
  const { transport, engineId } = await openTransport(files, `kvferry-ping-${id}`, clock)
  try {
    const identity = { engineId, incarnation: asIncarnation(id) }
    return await exchange(address, { identity, transport, clock, options })
  } finally {
    transport.close()
  }
}

interface Exchange {
  readonly identity: PeerIdentity
  readonly transport: Transport
  readonly clock: Clock
  readonly options: PingOptions
}

async function exchange(
  { host, port }: Address,
  { identity, transport, clock, options }: Exchange,
): Promise<Answer> {
  // "localhost" may lead anywhere; with certificates it doesn't matter where.
  const isLoopbackOnly = transport.kind === 'plain' && options.insecure !== true
  const startedAt = clock.now()
  let connectedAt = startedAt
  const { answer, connection } = await dial({
    host,
    port,
    engineId: options.engineId === undefined ? null : asEngineId(options.engineId),
    policy: { identity, peers: null, isLoopbackOnly },
    transport,
    clock,
    timeoutMs: options.timeout,
    onConnected() {
      connectedAt = clock.now()
    },
    onOpen: (connection, { engineId, incarnation }) => {
      connection.leave(encodeFrame('close'))
      const connectMs = connectedAt - startedAt
      const roundTripMs = clock.now() - connectedAt
      return { connection, answer: { engineId, incarnation, connectMs, roundTripMs } }
    },
  })
  await connection.gone
  return answer
}

/** What to try next, for the mistakes that are made most. */
function hintFor(error: AnyConnectorError, isPlain: boolean): string {
  if (error.code !== 'ERR_KV_PEER_INCOMPATIBLE') return ''
  if (error.details.remote.includes('HTTP')) {
    return '; ping the side channel, not the HTTP port: an engine tells it at /kvferry/v1/peer'
  }
  const { field, remote } = error.details
  const isTlsThere = field === 'sideChannel.tls' ? remote === 'plain TCP' : remote.includes('TLS')
  return isTlsThere && isPlain ? '; name --ca, --cert and --key' : ''
}

export async function ping(
  target: string,
  options: PingOptions,
  streams: CliStreams,
): Promise<ExitCode> {
  const address = parseAddress(target)
  const files = tlsFiles(options)
  if (files === null && options.insecure !== true && !isLoopbackHost(address.host)) {
    throw new UsageError(
      `${address.host} is on another machine: name --ca, --cert and --key, or add --insecure to talk to it without certificates`,
    )
  }
  const schema = 'kvferry.ping/1'
  try {
    const answer = await sayHello(address, files, options)
    const text =
      `engine ${answer.engineId} (incarnation ${answer.incarnation}, wire version ${WIRE_VERSION}) ` +
      `at ${target}: connected in ${answer.connectMs.toFixed(2)} ms, ` +
      `hello and back in ${answer.roundTripMs.toFixed(2)} ms`
    const json = { schema, ...address, admitted: true, wireVersion: WIRE_VERSION, ...answer }
    await report(streams, options, { json, text })
    return exitCodes.success
  } catch (error) {
    if (!ConnectorError.isInstance(error)) throw error
    const { code, message, details } = error
    const json = { schema, ...address, admitted: false, error: { code, message, details } }
    if (options.json !== undefined) await report(streams, options, { json, text: 'not admitted' })
    streams.stderr(`kvferry ping: ${code}: ${message}${hintFor(error, files === null)}\n`)
    return exitCodes.failed
  }
}
