/**
 * The Logger port over pino: one JSON line per entry, to stderr, because stdout belongs to results
 * (`--json -`, the ready line of the engine). Writes synchronously: the last lines before a crash are
 * the ones that matter. Level names instead of pino's numbers, so that logs read without a table.
 */
import { pino, stdTimeFunctions, type DestinationStream, type Logger as PinoLogger } from 'pino'
import type { LogFields, Logger } from '@kvferry/connector-api'

export const logLevels = ['debug', 'info', 'warn', 'error', 'silent'] as const
export type LogLevel = (typeof logLevels)[number]

export interface LoggerOptions {
  /** Written as `name` on every line, for example the program or the engine id. */
  readonly name: string
  /** Lowest level that is written. Default `info`. */
  readonly level?: LogLevel
  /** Default: stderr. */
  readonly destination?: DestinationStream
}

const wrap = (target: PinoLogger): Logger => ({
  debug: (message, fields) => target.debug(fields ?? {}, message),
  info: (message, fields) => target.info(fields ?? {}, message),
  warn: (message, fields) => target.warn(fields ?? {}, message),
  error: (message, fields) => target.error(fields ?? {}, message),
  child: (fields: LogFields) => wrap(target.child(fields)),
})

export function createLogger(options: LoggerOptions): Logger {
  const destination = options.destination ?? pino.destination({ dest: 2, sync: true })
  return wrap(
    pino(
      {
        name: options.name,
        level: options.level ?? 'info',
        base: { pid: process.pid },
        timestamp: stdTimeFunctions.isoTime,
        formatters: { level: (label) => ({ level: label }) },
      },
      destination,
    ),
  )
}
