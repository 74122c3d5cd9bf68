/** The router's `micro` result on the screen: every number comes from the result object. Pure. */
import Table from 'cli-table3'
import type { CpuCase, MicroRouterResult, RouterCase } from './result.ts'
import { verdictWords } from './table.ts'

const ms = (us: number | null): string => (us === null ? '–' : (us / 1_000).toFixed(3))

const row = (each: RouterCase): string[] => [
  each.label,
  ms(each.directUs.p50),
  ms(each.directUs.p99),
  ms(each.routedUs.p50),
  ms(each.routedUs.p99),
  `${ms(each.addedUs.p50)} (${each.addedMedianInterval.map(ms).join(' to ')})`,
  `${ms(each.noise.addedUs.p50)} ± ${ms(each.noise.spreadUs)}`,
  ms(each.bar.limit),
  verdictWords[each.bar.verdict],
]

export function renderMicroRouter({ cases, verdict, workload }: MicroRouterResult): string {
  const table = new Table({
    head: [
      'ms',
      'direct p50',
      'p99',
      'routed p50',
      'p99',
      'added p50 (95 %)',
      'A-A',
      'limit',
      'bar',
    ],
    style: { head: [], border: [] },
  })
  for (const each of cases) if (each.kind === 'router-added-latency') table.push(row(each))
  const cpu = cases.find((each): each is CpuCase => each.kind === 'router-cpu')
  const { rounds, streams, tokensPerS } = workload
  const lines = [
    `${streams} streams, ${tokensPerS} tokens/s in all, ${rounds} rounds of windows direct, direct again and through the router`,
    table.toString(),
    ...(cpu === undefined ? [] : [`${cpu.label}: ${(cpu.share * 100).toFixed(1)} % of a core`]),
    verdict.ok
      ? 'all bars held'
      : `bars missed:\n${verdict.failures.map((f) => `  ${f}`).join('\n')}`,
  ]
  return `${lines.join('\n')}\n`
}
