/** What each configuration is in the load experiment. Pure. */
import type { Configuration } from '../compare/configuration.ts'
import type { EngineShape } from '../compare/presets.ts'

/**
 * `baseline`: pull as it is. `direct`: a connector with tickets, which the bars speak of. `snapshot`: the same
 * with `staging: snapshot`, where D reads only what P has published whole: the published text's own baseline.
 */
export type LoadRole = 'baseline' | 'direct' | 'snapshot' | 'other'

export interface LoadRun {
  readonly configuration: Configuration
  readonly label: string
  readonly role: LoadRole
  readonly shape: EngineShape
}

export interface LoadChoice {
  readonly configuration: Configuration
  readonly hasTickets: boolean
}

function roleOf({ configuration, hasTickets }: LoadChoice): LoadRole {
  const { connector, options } = configuration
  if (hasTickets) return options['staging'] === 'snapshot' ? 'snapshot' : 'direct'
  return connector === 'pull' && Object.keys(options).length === 0 ? 'baseline' : 'other'
}

/** The first one is the one that A-A repeats: the baseline where there is one. */
export function loadRuns(choices: readonly LoadChoice[], shape: EngineShape): LoadRun[] {
  const runs = choices.map((choice) => ({
    configuration: choice.configuration,
    label: choice.configuration.label,
    role: roleOf(choice),
    shape,
  }))
  const isBaseline = ({ role }: LoadRun): boolean => role === 'baseline'
  return [...runs.filter(isBaseline), ...runs.filter((run) => !isBaseline(run))]
}
