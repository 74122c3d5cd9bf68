/** The transport that a configuration asks for, with its certificates read and judged. */
import type { Clock, Logger, PeerIdentity, SideChannelConfig } from '@kvferry/connector-api'
import { CredentialStore } from '../tls/credential-store.ts'
import { TlsTransport } from './tls-transport.ts'
import { plainTransport, type Transport } from './transport.ts'

/** @throws ConnectorError ERR_KV_CONFIG for certificates that can't be used. */
export async function openTransport(options: {
  readonly config: SideChannelConfig
  readonly identity: PeerIdentity
  readonly clock: Clock
  readonly logger: Logger
}): Promise<Transport> {
  const { config, identity, clock, logger } = options
  if (config.tls === null) return plainTransport
  const { engineId } = identity
  const store = await CredentialStore.open({ files: config.tls, engineId, clock, logger })
  return new TlsTransport(store, engineId)
}
