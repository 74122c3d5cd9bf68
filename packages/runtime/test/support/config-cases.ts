/** Configurations for tests: a valid one with one value replaced, and the error of a refused one. */
import { ConnectorError } from '@kvferry/connector-api'
import { parseConfig } from '../../src/index.ts'

/** A minimal valid configuration with one path replaced: `with_('peers.0.port', 1)`. */
export function withValue(path: string, value: unknown): unknown {
  const config: Record<string, unknown> = {
    connector: 'pull',
    sideChannel: {},
    nixl: {},
    ipc: {},
    peers: [{ host: '127.0.0.1', port: 5601, engineId: 'd0' }],
  }
  const parts = path.split('.')
  let at: Record<string, unknown> = config
  for (const part of parts.slice(0, -1)) at = at[part] as Record<string, unknown>
  at[parts.at(-1) as string] = value
  return config
}

export function refusal(input: unknown): ConnectorError<'ERR_KV_CONFIG'> {
  try {
    parseConfig(input)
  } catch (error) {
    if (ConnectorError.isInstance(error) && error.code === 'ERR_KV_CONFIG') return error
    throw error
  }
  throw new Error('was accepted')
}
