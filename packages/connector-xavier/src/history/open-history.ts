/**
 * Whether this engine keeps a history, and its start. Only what hands KV over keeps any; what can't be restored is
 * computed, so an engine that would fail such requests is refused.
 */
import {
  ConnectorError,
  type KvCacheLayout,
  type KvHistory,
  type KvferryConfig,
  type TransferDirections,
  type WorkerComponents,
} from '@kvferry/connector-api'
import type { XavierOptions } from '../options.ts'

/** By its configuration; whether it can depends on the engine, too. */
const wantsHistory = ({ role }: KvferryConfig, { gpuCacheBytes }: XavierOptions): boolean =>
  role !== 'consumer' && gpuCacheBytes > 0

/** @throws ConnectorError ERR_KV_CONFIG: a history, and requests that fail when it can't be read. */
export function assertHistoryPolicy(config: KvferryConfig, options: XavierOptions): void {
  if (!wantsHistory(config, options)) return
  if (config.loadFailurePolicy === 'recompute') return
  const details = {
    field: 'loadFailurePolicy',
    value: config.loadFailurePolicy,
    remedy: 'use recompute, or options.gpuCacheBytes: 0',
  }
  const message = `loadFailurePolicy: ${details.value} would fail requests for the history's sake; ${details.remedy}`
  throw new ConnectorError('ERR_KV_CONFIG', message, details)
}

/** Null: none. @throws ConnectorError ERR_KV_CONFIG for sizes that are none. */
export function openHistory(
  { config, history, clock, random, logger, metrics }: WorkerComponents,
  options: XavierOptions,
  caches: KvCacheLayout,
  directions: TransferDirections,
): KvHistory | null {
  if (!wantsHistory(config, options)) return null
  if (history === undefined) {
    logger.info('no history: this engine offers none to its connectors')
    return null
  }
  const { gpuCacheBytes, hostBlockCount, historyPolicy: policy } = options
  const opened = history.open({
    ...{ caches, gpuCacheBytes, policy, clock, random, logger, metrics, directions },
    ...(hostBlockCount === null ? {} : { hostBlockCount }),
  })
  return opened.isEnabled ? opened : null
}
