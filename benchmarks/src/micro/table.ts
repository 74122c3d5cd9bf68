/**
 * A `micro` result on the screen: every number comes from the result object. Pure.
 */
import Table from 'cli-table3'
import type { Bar } from './pair-statistics.ts'
import type { MicroCase, MicroResult, ThroughputCase } from './result.ts'

export const verdictWords: Readonly<Record<Bar['verdict'], string>> = {
  pass: 'pass',
  fail: 'FAIL',
  'too-noisy': 'TOO NOISY',
  reported: '–',
}

const show = (value: number | null, digits = 1): string =>
  value === null ? '–' : value.toFixed(digits)

/** GB/s (10⁹) of one median round. */
function bandwidth({ sizeBytes, depth }: ThroughputCase, us: number | null): string {
  return us === null || us === 0 ? '–' : ((sizeBytes * depth) / us / 1_000).toFixed(2)
}

function throughputTable(cases: readonly ThroughputCase[]): string {
  const table = new Table({
    head: ['read', 'bare GB/s', 'ours GB/s', 'ratio', 'A-A ratio', 'A-A spread', 'limit', 'bar'],
    style: { head: [], border: [] },
  })
  for (const each of cases) {
    table.push([
      each.label,
      bandwidth(each, each.bareUs.p50),
      bandwidth(each, each.oursUs.p50),
      show(each.ratio.p50, 3),
      show(each.noise.ratio.p50, 3),
      show(each.noise.spread, 3),
      show(each.bar.limit, 3),
      verdictWords[each.bar.verdict],
    ])
  }
  return table.toString()
}

function costRow(each: Exclude<MicroCase, ThroughputCase>): string[] {
  const verdict = verdictWords[each.bar.verdict]
  if ('share' in each) {
    const percent = (share: number) => `${show(share * 100, 2)} %`
    const limit = each.bar.limit === null ? '–' : percent(each.bar.limit)
    return [each.label, percent(each.share), '–', '–', limit, verdict]
  }
  if (each.kind === 'python-bindings') {
    if (each.skipped !== null) return [each.label, 'skipped', '–', '–', '–', '–']
    const limit = each.bar.limit === null ? '–' : show(each.bar.limit, 3)
    const medians = `${show(each.oursUs?.p50 ?? null)} / ${show(each.pythonUs?.p50 ?? null)} µs`
    return [each.label, show(each.bar.value, 3), medians, '–', limit, verdict]
  }
  const { p50, p99, max } = each.us
  const limit = each.bar.limit === null ? '–' : `${each.bar.limit} µs`
  return [each.label, `${show(p50)} µs`, `${show(p99)} µs`, `${show(max)} µs`, limit, verdict]
}

export function renderMicro(result: MicroResult): string {
  const throughput = result.cases.filter((each) => each.kind === 'throughput')
  const costs = new Table({
    head: ['cost', 'p50', 'p99', 'max', 'limit', 'bar'],
    style: { head: [], border: [] },
  })
  for (const each of result.cases) if (each.kind !== 'throughput') costs.push(costRow(each))
  const { environment, verdict, workload } = result
  const lines = [
    `agent against a bare loop over NIXL ${environment.nixl ?? '?'}, over ${environment.transports.join(', ') || 'an unknown transport'}; ${workload.pairs} interleaved pairs a row, medians`,
    throughputTable(throughput),
    costs.toString(),
    ...result.cases.flatMap((each) =>
      each.kind === 'python-bindings' && each.skipped !== null
        ? [`skipped: ${each.label}: ${each.skipped}`]
        : [],
    ),
    verdict.ok
      ? 'all bars held'
      : `bars missed:\n${verdict.failures.map((f) => `  ${f}`).join('\n')}`,
  ]
  return `${lines.join('\n')}\n`
}
