/** The slabs of an engine's agents: by its configured path, the size of its blocks and where they lie. */
import { slabsFor, type SlabOptions } from '@kvferry/connector-api'
import { resolveModel } from '../model-presets.ts'
import type { CoreConfig } from './core-messages.ts'

/** Null: none. */
export function slabsOf({ settings, kvferry }: CoreConfig): SlabOptions | null {
  if (kvferry === null) return null
  const { slotSizeBytes } = resolveModel(settings.model, settings.kvScale)
  const blockSizeBytes = (slotSizeBytes / settings.tpSize) * settings.blockTokens
  return slabsFor(kvferry.path, [{ blockSizeBytes }], settings.device === null ? 'host' : 'cuda')
}
