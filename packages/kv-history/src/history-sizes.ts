/**
 * How many blocks history may keep, from what the operator and the engine say. Pure.
 */
import { blockBytes, ConnectorError, type KvCacheLayout } from '@kvferry/connector-api'
import { historyLimits } from './limits.ts'

export interface HistorySizes {
  readonly blockBytes: number
  readonly deviceBlockCapacity: number
  readonly hostBlockCapacity: number
}

/**
 * The budget counts whole blocks and nothing else (no weights, slabs or tables). A budget of 0 means no
 * history at all; one that is smaller than a block leaves only the host tier.
 * @throws ConnectorError ERR_KV_CONFIG.
 */
export function historySizes(
  caches: KvCacheLayout,
  gpuCacheBytes: number = historyLimits.gpuCacheBytesDefault,
  hostBlockCount: number = caches.blockCount,
): HistorySizes {
  assertCount('gpuCacheBytes', gpuCacheBytes)
  assertCount('hostBlockCount', hostBlockCount)
  const size = blockBytes(caches)
  const isOff = gpuCacheBytes === 0
  const device = Math.floor(gpuCacheBytes / size)
  const host = isOff ? 0 : hostBlockCount
  if (device + host > historyLimits.capacityBlockCountMax) {
    const remedy = `lower it: device and host tier together hold at most ${historyLimits.capacityBlockCountMax} blocks`
    if (host > device) throw configError('hostBlockCount', hostBlockCount, remedy)
    throw configError('gpuCacheBytes', gpuCacheBytes, remedy)
  }
  return { blockBytes: size, deviceBlockCapacity: device, hostBlockCapacity: host }
}

/** Values come from configuration files: `true`, `"1024"` and 1.5 are mistakes, not numbers. */
function assertCount(field: string, value: unknown): void {
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0) return
  throw configError(field, value, 'use a non-negative integer')
}

function configError(field: string, value: unknown, remedy: string): ConnectorError {
  const shown = JSON.stringify(value) ?? String(value)
  const message = `${field}: ${shown} is no valid size: ${remedy}`
  return new ConnectorError('ERR_KV_CONFIG', message, { field, value: shown, remedy })
}
