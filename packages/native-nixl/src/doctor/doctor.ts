/**
 * Finds out whether NIXL works here, by use: is the library whole, does it load, and does a block arrive
 * in both directions between two processes over each transport. Says which transport UCX really chose,
 * and for each failure what mends it; when asked, what each path moves. Called by `kvferry-nixl doctor`.
 */
import { dirname } from 'node:path'
import { cudaInfo } from '../cuda.ts'
import { findGpus, noGpu } from './gpus.ts'
import { findLibrary } from '../library-path.ts'
import { loadBinding } from '../load-binding.ts'
import { checkInstallation, readManifest } from '../install/manifest.ts'
import { nixlWheels } from '../install/wheels.ts'
import { asConnectorError, callNative } from '../nixl-error.ts'
import { moveBlock, type MoveResult } from './move-block.ts'
import { measureRates, type PairRates, type Rates } from './rates.ts'
import { rateFinding } from './rates-text.ts'

export interface Finding {
  readonly check: string
  /** `degraded`: it works, but not over what was asked for. */
  readonly status: 'ok' | 'degraded' | 'failed'
  readonly detail: string
  /** What to do about it; null when nothing is wrong. */
  readonly remedy: string | null
  readonly move: MoveResult | null
}

interface TransportCase {
  readonly check: string
  /** Value of UCX_TLS. */
  readonly transports: string
  /** What must carry the data. */
  readonly expected: string
  readonly remedy: string
}

const transportCases: readonly TransportCase[] = [
  {
    check: 'shared memory (CMA)',
    transports: 'sm,self,tcp',
    expected: 'cma',
    remedy:
      'Let the processes copy from each other: same user, the capability SYS_PTRACE in containers ("docker run --cap-add SYS_PTRACE"), and kernel.yama.ptrace_scope=0',
  },
  {
    check: 'TCP (loopback)',
    transports: 'tcp',
    expected: 'tcp',
    remedy: 'Check that processes may connect to each other over the loopback interface "lo"',
  },
]

export interface DoctorOptions {
  /** Bytes of one transfer, to measure rates with; null: none are measured. */
  readonly ratesBytes?: number | null
  readonly onPair?: (pair: PairRates) => void
  /** Called after each check. */
  readonly onFinding?: (finding: Finding) => void
  readonly signal?: AbortSignal
}

export interface Diagnosis {
  readonly findings: readonly Finding[]
  /** Null: not asked for, or NIXL can't be used. */
  readonly rates: Rates | null
}

/** Never rejects for what it finds, only when aborted. */
export async function runDoctor(options: DoctorOptions = {}): Promise<Diagnosis> {
  const findings: Finding[] = []
  const add = (finding: Finding) => {
    findings.push(finding)
    options.onFinding?.(finding)
    return finding.status !== 'failed'
  }
  if (!add(checkAddon())) return { findings, rates: null }
  const library = await checkLibrary()
  if (!add(library)) return { findings, rates: null }
  const gpus = findGpus()
  for (const transportCase of transportCases) {
    add(await checkTransport(transportCase, gpus.length > 0, options.signal))
  }
  for (const finding of gpus.length > 0 ? gpus : [noGpu()]) add(finding)
  const { ratesBytes: totalBytes = null, onPair, signal } = options
  if (totalBytes === null) return { findings, rates: null }
  const rates = await measureRates({
    cuda: gpus.length > 0 ? cudaInfo() : null,
    totalBytes,
    ...(signal === undefined ? {} : { signal }),
    onPair(pair) {
      add(rateFinding(pair))
      onPair?.(pair)
    },
  })
  return { findings, rates }
}

function failure(check: string, error: unknown): Finding {
  const known = asConnectorError(error, check)
  const remedy =
    known.code === 'ERR_NIXL_UNAVAILABLE' ? known.details.remedy : 'Report this with the output'
  return { check, status: 'failed', detail: known.message, remedy, move: null }
}

function checkAddon(): Finding {
  const check = 'native addon'
  try {
    loadBinding()
    const detail = `loads in Node ${process.versions.node}`
    return { check, status: 'ok', detail, remedy: null, move: null }
  } catch (error) {
    return failure(check, error)
  }
}

async function checkLibrary(): Promise<Finding> {
  const check = 'NIXL library'
  try {
    const path = findLibrary()
    const directory = dirname(dirname(path))
    const manifest = readManifest(directory)
    const problem =
      manifest === null
        ? null
        : await checkInstallation(directory, nixlWheels[manifest.cuda], { isThorough: true })
    if (problem !== null) {
      const remedy = 'Run "npx kvferry-nixl install"; it replaces a damaged installation'
      return { check, status: 'failed', detail: `${directory}: ${problem}`, remedy, move: null }
    }
    callNative({ operation: 'loadLibrary' }, () => loadBinding().loadLibrary(path))
    const origin = manifest === null ? 'of unknown version' : manifest.nixlVersion
    return { check, status: 'ok', detail: `${origin}, ${path}`, remedy: null, move: null }
  } catch (error) {
    return failure(check, error)
  }
}

async function checkTransport(
  { check, transports, expected, remedy }: TransportCase,
  hasGpu: boolean,
  signal?: AbortSignal,
): Promise<Finding> {
  // Where there is a GPU, NIXL refuses a choice that can't reach it.
  const move = await moveBlock(hasGpu ? `${transports},cuda_copy` : transports, signal)
  if (move.failure !== null) {
    return { check, status: 'failed', detail: move.failure, remedy, move }
  }
  const used = move.transports.data.join(', ') || 'an unknown transport'
  const detail = `block read in ${Math.round(move.readUs)} us and written in ${Math.round(move.writeUs)} us over ${used}`
  if (move.transports.data.includes(expected)) {
    return { check, status: 'ok', detail, remedy: null, move }
  }
  return { check, status: 'degraded', detail: `${detail} instead of ${expected}`, remedy, move }
}
