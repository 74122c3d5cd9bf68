/** Where and how a result was measured, as a table: a chart without it is not worth showing. Pure. */
import type { Environment } from '../lib/environment.ts'
import type { DataTable } from './html-page.ts'

type Known = Omit<Environment, 'transports' | 'seed'>

const orDash = (value: string | null): string => value ?? '–'

/** `rest`: what the command knows beside the machine. */
export function conditionsTable(
  environment: Known,
  rest: readonly (readonly [name: string, value: string])[],
): DataTable {
  const { cpu, gpu, packages } = environment
  return {
    title: 'Conditions',
    head: ['', ''],
    rows: [
      ...rest.map((row) => [...row]),
      ['CPU', `${cpu.model}, ${cpu.cores} cores`],
      ['memory', `${(environment.memoryBytes / 2 ** 30).toFixed(1)} GiB`],
      ['GPU', gpu.join(', ') || 'none'],
      ['device tier', environment.deviceTier],
      ['kernel, Node', `${environment.kernel}, ${environment.node}`],
      ['NIXL, UCX', `${orDash(environment.nixl)}, ${orDash(environment.ucx)}`],
      ['commit', orDash(environment.commit)],
      [
        'packages',
        Object.entries(packages)
          .map(([name, version]) => `${name} ${version}`)
          .join(', '),
      ],
    ],
  }
}
