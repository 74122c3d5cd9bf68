/** Structured logging port; `runtime` implements it with a library. `fields` are flat and JSON-safe. */
export type LogFields = Readonly<Record<string, string | number | boolean | null | undefined>>

export interface Logger {
  debug(message: string, fields?: LogFields): void
  info(message: string, fields?: LogFields): void
  warn(message: string, fields?: LogFields): void
  error(message: string, fields?: LogFields): void
  child(fields: LogFields): Logger
}

export const silentLogger: Logger = {
  debug() {},
  info() {},
  warn() {},
  error() {},
  child: () => silentLogger,
}
