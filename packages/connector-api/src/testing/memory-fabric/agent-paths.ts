/** What agents of the fabric have, and what they lack. */
import { ConnectorError } from '../../errors.ts'
import type { AgentPath } from '../../slabs.ts'
import type { AgentProcess } from './agent-process.ts'

/** What the agents of all these processes have. */
export function pathsOf(...processes: readonly AgentProcess[]): readonly AgentPath[] {
  const paths: AgentPath[] = ['descriptors']
  if (processes.every(({ hasSlabs }) => hasSlabs)) paths.push('slabs')
  if (processes.every(({ hasIpc }) => hasIpc)) paths.push('ipc')
  return paths
}

/** @throws ConnectorError ERR_KV_UNSUPPORTED */
export function assertPath(
  path: AgentPath,
  processes: readonly AgentProcess[],
  where: string,
): void {
  if (pathsOf(...processes).includes(path)) return
  const message = `${where}.path: one of the two agents has no ${path}`
  throw new ConnectorError('ERR_KV_UNSUPPORTED', message, { capability: 'path' })
}

/** Nothing happens on a GPU here. */
export function noEvents(): ConnectorError {
  const message = 'signalFence: an agent in memory has no GPU to ask about an event'
  return new ConnectorError('ERR_KV_UNSUPPORTED', message, { capability: 'fence by event' })
}
