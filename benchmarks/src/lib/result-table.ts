/**
 * Blocks of rows on the screen, one column a run, so that they fit a terminal. The HTML reports show the
 * same rows. Pure.
 */
import Table from 'cli-table3'

/** A block of rows, one column a run; the text table and the HTML report show the same. */
export interface ResultSection {
  readonly title: string
  readonly head: readonly string[]
  readonly rows: readonly (readonly string[])[]
}

/** Three digits or so; a dash where nothing was observed. */
export function formatMs(value: number | null): string {
  if (value === null) return '–'
  return value.toFixed(Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2)
}

export const yesNo = (isGood: boolean): string => (isGood ? 'yes' : 'NO')

/** Several numbers of one distribution. */
export const shown = (...values: readonly (number | null)[]): string =>
  values.every((value) => value === null) ? '–' : values.map(formatMs).join(' / ')

export function sectionText({ title, head, rows }: ResultSection): string {
  const table = new Table({
    head: [title, ...head],
    style: { head: [], border: [], compact: true },
    colWidths: [30, ...head.map((label) => Math.max(20, label.length + 2))],
    wordWrap: true,
  })
  table.push(...rows.map((row) => [...row]))
  return table.toString()
}
