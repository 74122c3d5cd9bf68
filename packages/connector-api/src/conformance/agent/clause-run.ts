/** The type that ties runs to clauses: a group's file must have a run for each clause of the group. */
import type { AgentClauseId, AgentGroup } from '../clauses.ts'
import type { ClauseContext } from './context.ts'

export type ClauseRun = (context: ClauseContext) => Promise<void>

export type GroupRuns<G extends AgentGroup> = {
  readonly [Id in Extract<AgentClauseId, `${G}.${string}`>]: ClauseRun
}
