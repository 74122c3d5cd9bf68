/**
 * From the config word to a connector, its options checked and completed by itself. Here, because this
 * package is the one whose dependencies decide which connectors can be imported.
 */
import { assertServes, loadConnector } from '@kvferry/connector-api'
import type { ConnectorFactory, KvferryConfig } from '@kvferry/connector-api'

/** @throws ConnectorError ERR_KV_CONNECTOR_NOT_INSTALLED, ERR_KV_CONFIG. */
export async function loadFactory(
  config: KvferryConfig,
): Promise<{ readonly factory: ConnectorFactory; readonly config: KvferryConfig }> {
  const factory = await loadConnector(config.connector, (name) => import(name))
  assertServes(factory, config)
  return { factory, config: { ...config, options: factory.parseOptions(config.options) } }
}
