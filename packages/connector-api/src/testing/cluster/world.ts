/** One simulated world: clock, randomness, fabric, network, and the connector that its engines run. */
import type { ConnectorFactory } from '../../connector.ts'
import type { TransferPath } from '../../config.ts'
import { createMemoryFabric } from '../memory-fabric/fabric.ts'
import type { MemoryFabric, MemoryFabricOptions } from '../memory-fabric/fabric.ts'
import { createMemorySideChannels } from '../memory-side-channel/memory-side-channels.ts'
import type { MemorySideChannels } from '../memory-side-channel/memory-side-channels.ts'
import { createSeededRandom } from '../seeded-random.ts'
import type { SeededRandom } from '../seeded-random.ts'
import { createSimClock } from '../sim-clock.ts'
import type { SimClock } from '../sim-clock.ts'
import { SimProcesses } from './sim-processes.ts'

export interface World {
  readonly clock: SimClock
  readonly random: SeededRandom
  readonly fabric: MemoryFabric
  readonly channels: MemorySideChannels
  readonly processes: SimProcesses
  readonly factory: ConnectorFactory
  /** `config.path` of its engines. */
  readonly path: TransferPath
}

export type WorldTimes = Partial<Omit<MemoryFabricOptions, 'clock' | 'random'>>

/** Small and slow enough that a transfer of a few blocks can be caught in the middle. */
export const slowFabric: WorldTimes = { bandwidthBytesPerMs: 64, pageSizeBytes: 64 }

export function createWorld(options: {
  readonly factory: ConnectorFactory
  readonly seed?: number
  readonly times?: WorldTimes
  readonly path?: TransferPath
}): World {
  const { factory, seed = 1, times = {}, path = 'descriptors' } = options
  const clock = createSimClock(seed)
  const random = createSeededRandom(seed)
  const fabric = createMemoryFabric({ clock, random: random.fork('fabric'), ...times })
  const channels = createMemorySideChannels({ clock, random: random.fork('channels') })
  return { clock, random, fabric, channels, processes: new SimProcesses(), factory, path }
}

/** Advances time until `condition` holds. @throws Error when it doesn't within `limitMs`. */
export async function until(
  { clock }: World,
  condition: () => boolean,
  limitMs = 60_000,
): Promise<void> {
  if (await clock.runUntil(condition, limitMs)) return
  throw new Error(`did not come true within ${limitMs} ms: ${condition.toString()}`)
}
