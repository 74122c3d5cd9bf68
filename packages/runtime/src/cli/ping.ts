/**
 * `kvferry ping HOST:PORT`: becomes a peer of a running engine for one hello, to see who answers, whether it
 * lets us in, and how long that takes. Under a name of its own, never an engine's: a second one with
 * the name of a connected peer would end that peer's association.
 */
import { asEngineId, asIncarnation, ConnectorError, WIRE_VERSION } from '@kvferry/connector-api'
import { isLoopbackHost } from '../loopback.ts'
import { dial } from '../side-channel/dial.ts'
import { encodeFrame } from '../side-channel/frame.ts'
import { createSystemClock } from '../system-clock.ts'
import { createSystemRandom } from '../system-random.ts'
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

async function sayHello({ host, port }: Address, options: PingOptions): Promise<Answer> {
  const clock = createSystemClock()
  const id = Buffer.from(createSystemRandom().bytes(8)).toString('hex')
  const identity = { engineId: asEngineId(`kvferry-ping-${id}`), incarnation: asIncarnation(id) }
  const startedAt = clock.now()
  let connectedAt = startedAt
  const { answer, connection } = await dial({
    host,
    port,
    engineId: options.engineId === undefined ? null : asEngineId(options.engineId),
    policy: { identity, peers: null, isLoopbackOnly: options.insecure !== true },
    clock,
    timeoutMs: options.timeout,
    onConnection() {
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

export async function ping(
  target: string,
  options: PingOptions,
  streams: CliStreams,
): Promise<ExitCode> {
  const address = parseAddress(target)
  if (options.insecure !== true && !isLoopbackHost(address.host)) {
    throw new UsageError(
      `${address.host} is on another machine: add --insecure to talk to it without certificates`,
    )
  }
  const schema = 'kvferry.ping/1'
  try {
    const answer = await sayHello(address, options)
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
    streams.stderr(`kvferry ping: ${code}: ${message}\n`)
    return exitCodes.failed
  }
}
