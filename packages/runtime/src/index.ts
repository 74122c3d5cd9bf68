/**
 * The ports of the contract, implemented with the libraries that the contract itself must not need.
 *
 * @packageDocumentation
 */
export { loadConfigFile, readConfigFile } from './config/load-config-file.ts'
export { nearestKey } from './config/nearest-key.ts'
export { parseConfig } from './config/parse-config.ts'
export { configError, fieldName, showValue, valueAt, type Problem } from './config/problem.ts'
export { plainWords } from './config/plain-words.ts'
export { bodyRefusal, type BodyRefusal } from './body-refusal.ts'
export { createClientErrorHandler } from './client-error.ts'
export { isLoopbackHost } from './loopback.ts'
export { createLogger, logLevels, type LoggerOptions, type LogLevel } from './logger.ts'
export {
  Counter,
  createMetrics,
  Gauge,
  Histogram,
  Registry,
  type RuntimeMetrics,
} from './metrics.ts'
export { createProcessTable } from './process-table.ts'
export { createSideChannel, type SideChannelOptions } from './side-channel/tcp-side-channel.ts'
export { describeUsage } from './cli/describe-usage.ts'
export { onStopRequest, type StopHost, type StopReason } from './stop-signals.ts'
export { createSystemClock } from './system-clock.ts'
export { createSystemRandom } from './system-random.ts'
