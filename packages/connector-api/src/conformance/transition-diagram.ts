/** A machine's table as the diagram that its documentation shows, so that a test can hold one against the other. Pure. */

/** Mermaid: one arrow for each pair of states, with the events that lead from one to the other. */
export function transitionDiagram(
  table: Readonly<Record<string, Readonly<Partial<Record<string, readonly string[]>>>>>,
): string {
  const arrows = new Map<string, string[]>()
  for (const [from, row] of Object.entries(table)) {
    for (const [event, targets = []] of Object.entries(row)) {
      for (const to of targets) {
        const arrow = `${from} --> ${to}`
        arrows.set(arrow, [...(arrows.get(arrow) ?? []), event])
      }
    }
  }
  const lines = [...arrows].map(([arrow, events]) => `  ${arrow}: ${events.join(', ')}`)
  const [first] = Object.keys(table)
  return ['```mermaid', 'stateDiagram-v2', `  [*] --> ${first}`, ...lines, '```'].join('\n')
}

/** The diagrams of a page, in order: what stands between `<!-- diagram -->` and `<!-- /diagram -->`. */
export const diagramsOf = (page: string): string[] =>
  page
    .split('<!-- diagram -->\n')
    .slice(1)
    .map((text) => text.split('\n<!-- /diagram -->')[0]!.trim())
