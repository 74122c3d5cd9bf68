/**
 * The process-wide settings of UCX, and which transports it really uses: asked for from its own protocol
 * log, since what was requested says nothing about what was chosen.
 */
import { readFileSync } from 'node:fs'
import type { TransferAgent } from '@kvferry/connector-api'
import type { NativeBinding } from './binding.ts'
import { callNative } from './nixl-error.ts'

/** The log in force; the same for every agent of the process, whichever thread asks. */
let logPath: string | null = null

/**
 * Sets variables that are unset, once per process; an empty `logFile` means memory.
 * @throws RangeError for a name or a value that can't be a variable.
 */
export function applyEnvironment(
  binding: NativeBinding,
  variables: Readonly<Record<string, string>>,
  logFile: string,
): void {
  logPath = callNative({ operation: 'environment' }, () =>
    binding.applyVariables(Object.keys(variables), Object.values(variables), logFile),
  )
}

export function transportsInUse(agent: TransferAgent): string[] {
  if (agent.kind !== 'nixl' || logPath === null) return []
  return [readFileSync(logPath, 'utf8')]
}
