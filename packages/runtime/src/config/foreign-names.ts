/**
 * Names that users bring from vLLM's and Xavier's configuration, with ours beside them. They are refused,
 * not translated (values and units differ), but the error says what to write instead.
 */

/** Of the `connector` field. */
const foreignConnectors: Readonly<Record<string, string>> = {
  NixlConnector: '"pull"',
  NixlPullConnector: '"pull"',
  NixlPushConnector: '"push"',
  XavierConnector: '"xavier"',
  xavier_direct: '"xavier"',
}

/** Of keys, at any level. */
const foreignKeys: Readonly<Record<string, string>> = {
  kv_connector: 'connector',
  kv_connector_module_path: 'connector (the name of a package that exports a ConnectorFactory)',
  kv_connector_extra_config:
    'the top level of this file, and options for what belongs to a connector',
  kv_role: 'role',
  kv_buffer_device: 'bufferDevice',
  kv_load_failure_policy: 'loadFailurePolicy',
  kv_ip: 'sideChannel.host',
  kv_port: 'sideChannel.port',
  kv_buffer_size: 'none (there is no shared buffer to size), so leave it out',
  kv_rank: 'none (engines are told apart by engineId), so leave it out',
  kv_parallel_size: 'none (peers are listed under peers), so leave it out',
  enable_permute_local_kv: 'none (layouts are compared in the handshake), so leave it out',
  enforce_handshake_compat: 'none (the handshake always compares), so leave it out',
  num_threads: 'none (one thread owns the agent), so leave it out',
  VLLM_NIXL_SIDE_CHANNEL_HOST: 'sideChannel.host',
  VLLM_NIXL_SIDE_CHANNEL_PORT: 'sideChannel.port',
  kv_lease_duration:
    'options.leaseDurationMs, with xavier options.unclaimedTicketMs (both in milliseconds)',
  kv_recompute_threshold: 'options.recomputeThreshold (tokens)',
  xavier_gpu_cache_bytes: 'options.gpuCacheBytes of the connector xavier',
  xavier_cache_backend: 'the options of the connector xavier',
  xavier_transfer_block_num: 'the options of the connector xavier',
}

const find = (table: Readonly<Record<string, string>>, name: string): string | null =>
  Object.hasOwn(table, name) ? (table[name] ?? null) : null

/** What to write instead of a foreign connector name, or null when it isn't one. */
export const ownNameOfConnector = (name: string): string | null => find(foreignConnectors, name)

/** What to use instead of a foreign key, or null when it isn't one. */
export const ownNameOfKey = (key: string): string | null => find(foreignKeys, key)
