/**
 * The process-wide settings of UCX, and which transports it really uses: read from its own protocol log,
 * since what was requested says nothing about what was chosen.
 */
import { readFileSync } from 'node:fs'
import type { TransferAgent } from '@kvferry/connector-api'
import type { NativeBinding } from './binding.ts'
import { loadBinding } from './load-binding.ts'
import { callNative } from './nixl-error.ts'

/** Path of the log in force; the same for every agent of the process, whichever thread asks. */
let logPath: string | null = null

/**
 * Sets variables that are unset, once per process; an empty `logFile` means memory of the process.
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

export interface AgentTransports {
  /** What carries the bytes of READs and WRITEs. */
  readonly data: readonly string[]
  /** What carries notifications and UCX's own messages. */
  readonly messages: readonly string[]
}

/** Header of one table: the agent's name, to whom, and the number of the endpoint configuration. */
const tableHeader = /\|\s*(.*) (self|intra-node|inter-node) cfg#\d+\s*\|/
/** Last column of a table row: `cma/memory`, `tcp/lo`, `33% on rc_mlx5/… and …`. */
const transportName = /\b([a-z][a-z0-9_]*)\/[a-z0-9_:.]+/g

/**
 * Reads the protocol tables that UCX prints for each endpoint. Pure. Rows of endpoints to the process
 * itself are left out: UCX makes those for its own needs, nothing of ours goes over them.
 */
export function parseProtocolLog(log: string, agentName: string): AgentTransports {
  const data = new Set<string>()
  const messages = new Set<string>()
  let isOurs = false
  let found = messages
  for (const line of log.split('\n')) {
    const header = tableHeader.exec(line)
    if (header !== null) {
      // UCX cuts long names.
      isOurs = header[2] !== 'self' && agentName.startsWith(header[1]!)
    } else if (line.includes('remote memory ')) {
      found = data
    } else if (line.includes('active message ')) {
      found = messages
    } else if (isOurs) {
      const columns = line.split('|')
      for (const [, name] of (columns.at(-2) ?? '').matchAll(transportName)) found.add(name!)
    }
  }
  return { data: [...data], messages: [...messages] }
}

/** Of this agent's endpoints so far; empty before the first peer, and where the log can't be read. */
export function agentTransports(agent: TransferAgent): AgentTransports {
  if (agent.kind !== 'nixl' || logPath === null) return { data: [], messages: [] }
  try {
    loadBinding().flushLog()
    return parseProtocolLog(readFileSync(logPath, 'utf8'), agent.name)
  } catch {
    return { data: [], messages: [] }
  }
}

/** Names of the transports in use by this agent: those that carry data first. */
export function transportsInUse(agent: TransferAgent): string[] {
  const { data, messages } = agentTransports(agent)
  return [...new Set([...data, ...messages])]
}
