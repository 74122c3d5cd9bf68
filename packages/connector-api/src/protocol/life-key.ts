/**
 * Keys of tables that hold something for one life of one engine: what belongs to another life must never be
 * found under it. Pure.
 */
import type { EngineId, Incarnation } from '../ids.ts'

/** `more` tells apart what one life has several of. No choice of ids makes two keys the same. */
export const lifeKey = (
  { engineId, incarnation }: { readonly engineId: EngineId; readonly incarnation: Incarnation },
  ...more: readonly (string | number)[]
): string => JSON.stringify([engineId, incarnation, ...more])
