/**
 * How the long-running programs of this workspace are asked to stop: SIGTERM or SIGINT, and where a parent
 * wants it, the end of standard input, which comes also when the parent was killed. The first asks for an end
 * in order; a later signal ends the process at once.
 */
const signalNumbers = { SIGINT: 2, SIGTERM: 15 } as const
export type StopReason = keyof typeof signalNumbers | 'stdin-end'

/** Signals closer together are one: a terminal's Ctrl-C often comes again through npm or `timeout`. */
const secondSignalAfterMs = 500

/** What is used of the process; tests give their own. */
export interface StopHost {
  on(signal: 'SIGINT' | 'SIGTERM', listener: () => void): unknown
  exit(code: number): void
  readonly stdin: Pick<NodeJS.ReadableStream, 'on' | 'resume' | 'pause'>
  now(): number
}

const ownProcess: StopHost = {
  on: (signal, listener) => process.on(signal, listener),
  exit: (code) => process.exit(code),
  get stdin() {
    return process.stdin
  },
  now: () => performance.now(),
}

export function onStopRequest(
  listener: (reason: StopReason) => void,
  options: { readonly stdinEnd?: boolean; readonly host?: StopHost } = {},
): void {
  const host = options.host ?? ownProcess
  let firstAtMs: number | null = null
  const ask = (reason: StopReason): boolean => {
    if (firstAtMs !== null) return false
    firstAtMs = host.now()
    // As long as it's read, a parent that holds it open would keep this process from ending.
    if (options.stdinEnd === true) host.stdin.pause()
    listener(reason)
    return true
  }
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    host.on(signal, () => {
      if (ask(signal)) return
      if (host.now() - (firstAtMs ?? 0) < secondSignalAfterMs) return
      host.exit(128 + signalNumbers[signal])
    })
  }
  if (options.stdinEnd !== true) return
  const onEnd = (): void => void ask('stdin-end')
  host.stdin.on('end', onEnd)
  host.stdin.on('close', onEnd)
  host.stdin.on('error', onEnd)
  host.stdin.resume()
}
