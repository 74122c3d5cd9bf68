/** The history's `micro` result on the screen: every number comes from the result object. Pure. */
import Table from 'cli-table3'
import type { MicroHistoryResult } from './result.ts'
import { verdictWords } from './table.ts'

const digits = (value: number | null, count = 3): string =>
  value === null ? '–' : value.toFixed(count)

export function renderMicroHistory({ cases, verdict, workload, noiseFloor }: MicroHistoryResult) {
  const table = new Table({
    head: ['', 'µs a block p50', 'p99', 'bytes an entry', 'limit', 'bar'],
    style: { head: [], border: [] },
  })
  for (const each of cases) {
    const times = each.kind === 'history-lookup' ? each.usPerBlock : each.ratio
    const bytes = each.kind === 'history-lookup' ? digits(each.bytesPerEntry, 0) : '–'
    const unit = each.kind === 'history-growth' ? ' ×' : ''
    const { limit, verdict: word } = each.bar
    table.push([
      ...[each.label, `${digits(times.p50)}${unit}`, `${digits(times.p99)}${unit}`, bytes],
      ...[limit === null ? '–' : String(limit), verdictWords[word]],
    ])
  }
  const lines = [
    `prompts of ${workload.blocksPerPrompt} blocks, found whole: lookup, reserve and touch; ${workload.rounds} rounds, ` +
      `A-A spread ${digits(noiseFloor.spread)}`,
    table.toString(),
    verdict.ok
      ? 'all bars held'
      : `bars missed:\n${verdict.failures.map((failure) => `  ${failure}`).join('\n')}`,
  ]
  return `${lines.join('\n')}\n`
}
