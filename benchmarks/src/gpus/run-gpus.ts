/**
 * `kvferry-bench gpus` as a function: what descriptors, slabs, ipc and auto reach between two processes on two GPUs, what they cost the
 * host, and what the way to host memory gives, each against its bar. Starts every process it needs and ends them all, on every way out.
 */
import { isNixlAvailable, nixlInfo } from '@kvferry/native-nixl'
import { missedTexts, noisyTexts } from '../experiments/bar.ts'
import { readEnvironment } from '../lib/environment.ts'
import { silentProgress, type Progress } from '../lib/progress.ts'
import { buildBareLoop, Participants } from '../micro/participants.ts'
import { judgeGpus } from './bars.ts'
import { measureDescriptors, type DescriptorsSides } from './descriptors.ts'
import type { TableName } from './messages.ts'
import { measureCost, measureGrid } from './paths.ts'
import type { GpusParts, GpusResult } from './result.ts'
import { gpus, partNames, toBytes, type PartName } from './settings.ts'
import { PairOfChildren } from './side.ts'
import { measureTiers } from './tiers.ts'

export interface GpusOptions {
  /** Of initiator and target: `cuda:N`, or `cpu`, which judges nothing. */
  readonly devices: readonly [string, string]
  readonly parts?: readonly PartName[]
  /** Largest transfer; a pool has twice as much. Default: all of the grid. */
  readonly totalMibMax?: number
  readonly progress?: Progress
  readonly signal?: AbortSignal
}

/** Null: the host's memory. */
const gpuOf = (device: string): number | null =>
  device === 'cpu' ? null : Number(device.slice('cuda:'.length))

/** What our agent sets by itself on a GPU; the baseline has to be told. */
const onGpuVariables = { NIXL_UCX_SGL_ENABLE: '1', UCX_MEMTYPE_CACHE: 'n' }

interface Run {
  readonly participants: Participants
  readonly places: readonly [number | null, number | null]
  readonly totalMibMax: number
  readonly progress: Progress
}

/** Whether the KV of the part `cost` fits a pool for transfers of that size. */
function isKvWithin(totalMib: number): boolean {
  const { regionCount, blockBytes, blocksPerRegion } = gpus.kv
  return 2 * toBytes(totalMib) >= regionCount * blockBytes * blocksPerRegion
}

async function openPair(
  { participants, places }: Run,
  name: string,
  totalMib: number,
): Promise<PairOfChildren> {
  const poolBytes = 2 * toBytes(totalMib)
  const tables: TableName[] = [
    ...new Set([...gpus.blockSizesBytes, toBytes(Math.min(gpus.barTotalMib, totalMib))]),
  ]
  if (isKvWithin(totalMib)) tables.push('kv')
  const start = (role: string, place: number | null) =>
    participants.gpus(`${name}-${role}`, { place, poolBytes, tables })
  const target = await start('target', places[1])
  return PairOfChildren.connect(await start('initiator', places[0]), target)
}

async function openBare({ participants, places, totalMibMax }: Run, name: string) {
  const regionBytes = 2 * toBytes(Math.min(gpus.barTotalMib, totalMibMax))
  const start = (role: string, place: number | null) =>
    participants.bareOn(`${name}-${role}`, {
      ...{ place, regionBytes, variables: place === null ? {} : onGpuVariables },
    })
  const target = await start('target', places[1])
  const initiator = await start('initiator', places[0])
  await target.process.request('watch')
  await initiator.process.request(['connect', ...target.words, places[1] ?? 0].join(' '))
  return { initiator: initiator.process, target: target.process }
}

const nothing: GpusParts = { descriptors: [], paths: [], cost: [], tiers: [] }

async function measureAll(run: Run, parts: readonly PartName[]) {
  const { totalMibMax, progress, participants } = run
  const found: { -readonly [Part in keyof GpusParts]: GpusParts[Part] } = { ...nothing }
  progress.phase('starting initiator and target')
  const pair = await openPair(run, 'gpus', totalMibMax)
  if (parts.includes('tiers')) found.tiers = await measureTiers(pair, totalMibMax, progress)
  if (parts.includes('cost') && isKvWithin(totalMibMax))
    found.cost = await measureCost(pair, progress)
  if (parts.includes('paths')) found.paths = await measureGrid(pair, totalMibMax, progress)
  const transports = await pair.transports()
  if (parts.includes('descriptors')) {
    // Nobody else polls beside these.
    await participants.stop()
    progress.phase('starting the baseline')
    const sides: DescriptorsSides = {
      bare: await openBare(run, 'bare'),
      bareAgain: await openBare(run, 'bare-again'),
      ours: await openPair(run, 'ours', Math.min(gpus.barTotalMib, totalMibMax)),
    }
    found.descriptors = await measureDescriptors(sides, totalMibMax, progress)
  }
  return { found, transports }
}

/**
 * @throws ConnectorError ERR_NIXL_UNAVAILABLE, ERR_CUDA_UNAVAILABLE; Error when the baseline can't be compiled, a child fails, or a
 *   byte is wrong.
 */
export async function runGpus(options: GpusOptions): Promise<GpusResult> {
  const { devices, parts = partNames, progress = silentProgress } = options
  const totalMibMax = options.totalMibMax ?? Math.max(...gpus.totalsMib)
  const signal = options.signal ?? new AbortController().signal
  const available = isNixlAvailable()
  if (!available.available) throw available.error
  const startedAt = performance.now()
  const isBareNeeded = parts.includes('descriptors')
  const bareLoop = isBareNeeded ? await buildBareLoop() : ''
  const participants = new Participants({ libraryPath: available.path, bareLoop, signal })
  const places = [gpuOf(devices[0]), gpuOf(devices[1])] as const
  try {
    const run = { participants, places, totalMibMax, progress }
    const { found, transports } = await measureAll(run, parts)
    const isOnGpu = places[0] !== null
    const isLinked = isOnGpu && places[1] !== null && places[0] !== places[1]
    const bars = judgeGpus(found, { isLinked, isOnGpu })
    const { nixlVersion: nixl, ucxVersion: ucx } = nixlInfo()
    const deviceTier = `memory of ${devices.join(' and ')}`
    const failures = missedTexts(bars)
    return {
      schema: 'kvferry.gpus/1',
      environment: readEnvironment({ seed: 0, nixl, ucx, transports, deviceTier }),
      ...{ devices, parts, totalMibMax },
      durationMs: Math.round(performance.now() - startedAt),
      bytesVerified: true,
      ...found,
      bars,
      verdict: { ok: failures.length === 0, warnings: noisyTexts(bars), failures },
    }
  } finally {
    await participants.stop()
  }
}
