/** The type that ties runs to clauses: a group's file must have a run for each clause of the group. */
import type { ConnectorClauseId, ConnectorGroup } from '../connector-clauses.ts'
import type { ConnectorContext } from './context.ts'

export type ConnectorClauseRun = (context: ConnectorContext) => Promise<void>

export type ConnectorGroupRuns<G extends ConnectorGroup> = {
  readonly [Id in Extract<ConnectorClauseId, `${G}.${string}`>]: ConnectorClauseRun
}
