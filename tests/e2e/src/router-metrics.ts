/** What the router has counted. */
import type { Deployment } from './deployment.ts'

/** Value of one metric by name and labels, as `/metrics` writes them; 0 for one that never moved. */
export type RouterMetrics = (line: string) => number

export async function readRouterMetrics({ routerUrl }: Deployment): Promise<RouterMetrics> {
  const text = await (await fetch(`${routerUrl}/metrics`)).text()
  const values = new Map(
    text.split('\n').map((line) => {
      const at = line.lastIndexOf(' ')
      return [line.slice(0, at), Number(line.slice(at + 1))]
    }),
  )
  return (line) => values.get(line) ?? 0
}
