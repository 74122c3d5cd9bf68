/**
 * Where the commands of `kvferry` write: text for people to stdout, unless the JSON goes there (then nothing
 * else does), complaints to stderr. The streams are given, so that tests need no process.
 */
import { writeFile } from 'node:fs/promises'

export interface CliStreams {
  stdout(text: string): void
  stderr(text: string): void
  /** Whose installed packages are used. Default: the working directory. */
  readonly directory?: string
}

export interface JsonOption {
  readonly json?: string
}

export const exitCodes = { success: 0, failed: 1, usage: 2 } as const
export type ExitCode = (typeof exitCodes)[keyof typeof exitCodes]

/** Wrong usage that commander can't see by itself; its message is the one line on stderr. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}

/** @throws UsageError when the file can't be written. */
export async function report(
  streams: CliStreams,
  options: JsonOption,
  { json, text }: { readonly json: object; readonly text: string },
): Promise<void> {
  const serialised = `${JSON.stringify(json, null, 2)}\n`
  if (options.json === '-') return streams.stdout(serialised)
  if (options.json !== undefined) {
    await writeFile(options.json, serialised).catch((cause: NodeJS.ErrnoException) => {
      throw new UsageError(`--json ${options.json}: can't be written (${cause.code})`, { cause })
    })
  }
  streams.stdout(`${text}\n`)
}
