/**
 * The listening socket of a side channel: binds only what the configuration allows, and turns the system's
 * reasons into configuration errors with a remedy. Accepts nothing by itself.
 */
import { createServer, type AddressInfo, type Server } from 'node:net'
import { limits, type SideChannelConfig } from '@kvferry/connector-api'
import { checkSideChannel } from '../config/cross-field.ts'
import { configError, showValue, type Problem } from '../config/problem.ts'
import { isLoopbackHost } from '../loopback.ts'
import { sideChannelLimits } from './limits.ts'

export interface Listening {
  readonly server: Server
  readonly address: { readonly host: string; readonly port: number }
}

const hostProblem = (value: string, remedy: string): Problem => ({
  field: 'sideChannel.host',
  value: showValue(value),
  remedy,
})

/** A config object made in code may not have passed `parseConfig`, and here is where it would matter. */
function checkConfig(config: SideChannelConfig): void {
  const [problem] = checkSideChannel(config)
  if (problem !== undefined) throw configError([problem])
}

function listenError(config: SideChannelConfig, error: NodeJS.ErrnoException): Error {
  const { host, port } = config
  if (error.code === 'EADDRINUSE' || error.code === 'EACCES') {
    const remedy = `choose another port, or 0 for any free one: ${error.code} on ${host}`
    const problem = { field: 'sideChannel.port', value: showValue(port), remedy }
    return configError([problem], { cause: error })
  }
  const remedy = `use an address of this machine: ${error.code ?? error.message}`
  return configError([hostProblem(host, remedy)], { cause: error })
}

/** @throws ConnectorError ERR_KV_CONFIG when the address can't or mustn't be bound. */
export async function listen(config: SideChannelConfig): Promise<Listening> {
  checkConfig(config)
  const server = createServer()
  // Associations and handshakes are bounded by themselves, with a word to the peer; this is the last stop.
  server.maxConnections =
    limits.associationCountMax +
    sideChannelLimits.handshakeCountMax +
    sideChannelLimits.farewellCountMax
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error) => reject(listenError(config, error)))
    server.listen({ host: config.host, port: config.port }, resolve)
  })
  const bound = server.address() as AddressInfo
  if (!config.insecure && config.tls === null && !isLoopbackHost(bound.address)) {
    server.close()
    throw configError([hostProblem(config.host, `it leads to ${bound.address}; use 127.0.0.1`)])
  }
  const host = isLoopbackHost(config.host) ? bound.address : config.host
  return { server, address: { host, port: bound.port } }
}
