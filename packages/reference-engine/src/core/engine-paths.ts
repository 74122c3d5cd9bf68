/** What the paths of an engine's agents need: by its configured path, the size of its blocks and where they lie. */
import { ipcFor, slabsFor, type IpcOptions, type SlabOptions } from '@kvferry/connector-api'
import { resolveModel } from '../model-presets.ts'
import type { CoreConfig } from './core-messages.ts'

const memoryOf = ({ settings }: CoreConfig) => (settings.device === null ? 'host' : 'cuda')

/** Null: none. */
export function slabsOf(config: CoreConfig): SlabOptions | null {
  const { settings, kvferry } = config
  if (kvferry === null) return null
  const { slotSizeBytes } = resolveModel(settings.model, settings.kvScale)
  const blockSizeBytes = (slotSizeBytes / settings.tpSize) * settings.blockTokens
  return slabsFor(kvferry.path, [{ blockSizeBytes }], memoryOf(config))
}

/**
 * Null: none.
 * @throws ConnectorError ERR_KV_CONFIG for the path `ipc` without a GPU.
 */
export function ipcOf(config: CoreConfig): IpcOptions | null {
  const { kvferry } = config
  return kvferry === null ? null : ipcFor(kvferry.path, memoryOf(config), kvferry.ipc)
}
