/** Bytes of KV, of the engines that an experiment runs. Pure. */
import { resolveModel } from '@kvferry/reference-engine'
import type { EngineShape } from '../compare/presets.ts'

/** One block, all layers. @throws ConnectorError ERR_KV_CONFIG for a model or scale that isn't one. */
export function blockSizeBytes({ model, kvScale, blockTokens }: EngineShape): number {
  const { slotSizeBytes, preset } = resolveModel(model, kvScale)
  return slotSizeBytes * preset.layerCount * blockTokens
}
