/** What the commands that run engines have in common. */
import { ConnectorError } from '@kvferry/connector-api'
import type { StartCluster } from '../compare/cluster.ts'
import {
  resolveConfigurations,
  type Configuration,
  type ConfigurationRequest,
} from '../compare/configuration.ts'
import { processClusters, type ProcessClusterOptions } from '../compare/process-cluster.ts'
import { UsageError } from '../usage-error.ts'

/** For flags that may come several times. */
export const collect = (value: string, previous: readonly string[]): string[] => [
  ...previous,
  value,
]

/** @throws UsageError for connectors or options that don't exist. */
export async function configurationsOf(request: ConfigurationRequest): Promise<Configuration[]> {
  try {
    return await resolveConfigurations(request)
  } catch (error) {
    if (!ConnectorError.isInstance(error)) throw error
    throw new UsageError(`${error.code}: ${error.message}`)
  }
}

export async function clusterMaker(
  options: ProcessClusterOptions,
  agent: 'nixl' | 'memory',
): Promise<StartCluster> {
  if (agent === 'nixl') return processClusters(options)
  // Here, not above: it needs all roles' code in this process.
  const { memoryClusters } = await import('../compare/memory-cluster.ts')
  return memoryClusters()
}
