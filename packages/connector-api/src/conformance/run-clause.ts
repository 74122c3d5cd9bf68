/**
 * Runs one clause and tells its outcome, without any test runner: so the suite can be judged itself,
 * by agents that break one rule each.
 */
import { agentClauses } from './clauses.ts'
import type { AgentClause, AgentClauseId } from './clauses.ts'
import { bytes } from './agent/bytes.ts'
import type { ClauseRun } from './agent/clause-run.ts'
import { completions } from './agent/completions.ts'
import { ClauseContext } from './agent/context.ts'
import { deadPeers } from './agent/dead-peers.ts'
import { deadlines } from './agent/deadlines.ts'
import { endings } from './agent/endings.ts'
import { fences } from './agent/fences.ts'
import { notifications } from './agent/notifications.ts'
import { peers } from './agent/peers.ts'
import { refusals } from './agent/refusals.ts'
import { registration } from './agent/registration.ts'
import { tables } from './agent/tables.ts'
import type { AgentHarness } from './harness.ts'

const runs: Readonly<Record<AgentClauseId, ClauseRun>> = {
  ...registration,
  ...peers,
  ...tables,
  ...bytes,
  ...completions,
  ...notifications,
  ...fences,
  ...deadlines,
  ...deadPeers,
  ...endings,
  ...refusals,
}

export type ClauseOutcome =
  | { readonly kind: 'passed' }
  | { readonly kind: 'skipped'; readonly reason: string }
  | { readonly kind: 'failed'; readonly error: unknown }

/** Why this harness can't run the clause; null when it can. */
export function reasonToSkip(clause: AgentClause, harness: AgentHarness): string | null {
  for (const need of clause.needs ?? []) {
    const reason = harness.unsupported[need]
    if (reason !== undefined) return `${need}: ${reason}`
  }
  return null
}

/** Never throws for a failed clause, only for an unknown id or a harness that can't open a world. */
export async function runAgentClause(
  id: AgentClauseId,
  harness: AgentHarness,
): Promise<ClauseOutcome> {
  const clause: AgentClause | undefined = agentClauses.find((candidate) => candidate.id === id)
  if (clause === undefined) throw new RangeError(`no clause ${id}`)
  const reason = reasonToSkip(clause, harness)
  if (reason !== null) return { kind: 'skipped', reason }
  const isIsolated = clause.isIsolated ?? false
  const world = await harness.openWorld({ isIsolated })
  let outcome: ClauseOutcome = { kind: 'passed' }
  try {
    const context = new ClauseContext(world)
    await runs[id](context)
    if (!isIsolated) await context.cleanUp()
  } catch (error) {
    outcome = { kind: 'failed', error }
  }
  const isReusable = outcome.kind === 'passed' && !isIsolated
  try {
    await harness.closeWorld(world, { isReusable })
  } catch (error) {
    // A world that a failed clause left behind may not close either: the first error is the finding.
    if (outcome.kind === 'passed') outcome = { kind: 'failed', error }
  }
  return outcome
}
