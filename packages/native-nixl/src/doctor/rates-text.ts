/** What `doctor --rates` says to people, and which of it is a finding. Pure. */
import { protocolLimits } from '@kvferry/connector-api/protocol'
import type { Finding } from './doctor.ts'
import type { PairRates } from './rates.ts'
import { rateBlockSizes, rateLimits, type RateResult } from './rates-plan.ts'

const kib = 1_024
const mib = 1_048_576
const sizeText = (bytes: number) =>
  bytes >= mib ? `${bytes / mib} MiB` : `${Math.round(bytes / kib)} KiB`

export function pairName({ from, to }: Pick<PairRates, 'from' | 'to'>): string {
  if (from === null) return 'host memory'
  return from === to ? `GPU ${from} (two processes)` : `GPU ${from} and GPU ${to}`
}

export function linkText({ from, to, link }: PairRates): string {
  if (from === null) return 'two processes of this machine'
  if (link === null) return from === to ? 'within one GPU' : 'of unknown kind'
  if (!link.hasAccess) return 'no peer access: through the host'
  const kind = link.hasNativeAtomics
    ? 'peer access with atomics, as NVLink'
    : 'peer access, as PCIe'
  return `${kind}, performance rank ${link.performanceRank}`
}

function rateText(result: RateResult | undefined): string {
  if (result === undefined) return '-'
  const rate = result.gigabytesPerSecond
  if (result.outcome === 'failed') return 'FAILED'
  if (rate === null) return result.outcome === 'cut-off' ? 'cut off' : '-'
  const digits = rate.toFixed(rate < 10 ? 2 : 0)
  return result.outcome === 'cut-off' ? `${digits}*` : digits
}

/** Columns of block sizes, rows of paths; each cell WRITE / READ. */
export function ratesText(pair: PairRates, totalBytes: number): string {
  const { results, paths, problem } = pair
  const find = (path: string, direction: string, blockBytes: number) =>
    results.find(
      (one) => one.path === path && one.direction === direction && one.blockBytes === blockBytes,
    )
  const widths = { name: 13, cell: 18 }
  const row = (name: string, cells: readonly string[]) =>
    `  ${name.padEnd(widths.name)}${cells.map((cell) => cell.padStart(widths.cell)).join('')}`
  const rows = paths.map((path) =>
    row(
      path,
      rateBlockSizes.map(
        (size) => `${rateText(find(path, 'write', size))} / ${rateText(find(path, 'read', size))}`,
      ),
    ),
  )
  const isCut = results.some(({ outcome }) => outcome === 'cut-off')
  const notes = [
    ...(isCut
      ? [
          `  *: the rate of the first ${sizeText(rateLimits.sampleSizeBytes)}; all would take over ${rateLimits.pointMs / 1_000} s`,
        ]
      : []),
    ...results
      .filter(({ outcome }) => outcome === 'failed')
      .map(
        ({ path, direction, blockBytes, detail }) =>
          `  ${path} ${direction} ${sizeText(blockBytes)}: ${detail}`,
      ),
    ...(problem === null ? [] : [`  not all was measured: ${problem}`]),
  ]
  return [
    `${pairName(pair)}, ${linkText(pair)}: ${sizeText(totalBytes)} in scattered blocks, WRITE / READ in GB/s`,
    row('path', rateBlockSizes.map(sizeText)),
    ...rows,
    ...notes,
  ].join('\n')
}

/** Bytes that arrived wrong, and descriptors that no direct way carries. */
export function rateFinding(pair: PairRates): Finding {
  const check = `rates, ${pairName(pair)}`
  const { results, problem, paths } = pair
  const failed = results.filter(({ outcome }) => outcome === 'failed')
  const finding = (status: Finding['status'], detail: string, remedy: string | null): Finding => ({
    ...{ check, status, detail, remedy, move: null },
  })
  if (failed.length > 0 || (results.length === 0 && problem !== null)) {
    const detail = failed[0]?.detail ?? problem ?? ''
    return finding('failed', detail, 'Report this with the output')
  }
  const largest = Math.max(...rateBlockSizes)
  const emulated = results.filter(
    ({ path, blockBytes, gigabytesPerSecond: rate }) =>
      path === 'descriptors' && blockBytes === largest && isSlow(rate),
  )
  if (pair.from !== null && emulated.length > 0) {
    const ways = emulated.map(
      ({ direction, gigabytesPerSecond }) =>
        `${direction.toUpperCase()} ${gigabytesPerSecond} GB/s`,
    )
    return finding(
      'degraded',
      `descriptors are as slow as software emulation: ${ways.join(', ')}`,
      'Let UCX find cuda_ipc (UCX_TLS unset) and let both processes see both GPUs; or take the path ipc or slabs, as "auto" does',
    )
  }
  return finding('ok', `measured by ${paths.join(', ')}`, null)
}

const isSlow = (rate: number | null) =>
  rate !== null && rate < protocolLimits.emulatedGigabytesPerSecondMax
