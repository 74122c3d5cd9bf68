/**
 * Runs one clause of the connector suite and tells its outcome, without any test runner: so the suite can
 * be judged itself, by connectors that break one rule each.
 */
import { aborts } from './connector/aborts.ts'
import { bounds } from './connector/bounds.ts'
import { capabilities } from './connector/capabilities.ts'
import type { ConnectorClauseRun } from './connector/clause-run.ts'
import { closing } from './connector/closing.ts'
import { ConnectorContext } from './connector/context.ts'
import { failures } from './connector/failures.ts'
import { hooks } from './connector/hooks.ts'
import { identity } from './connector/identity.ts'
import { leases } from './connector/leases.ts'
import { manifest } from './connector/manifest.ts'
import { messages } from './connector/messages.ts'
import { returningPrompts } from './connector/returning-prompts.ts'
import { straightPath } from './connector/straight-path.ts'
import type { ConnectorCapabilities } from '../capabilities.ts'
import { connectorClauses } from './connector-clauses.ts'
import type { ConnectorClause, ConnectorClauseId } from './connector-clauses.ts'
import { completeTarget } from './connector-target.ts'
import type { ConnectorTarget } from './connector-target.ts'
import type { ClauseOutcome } from './run-clause.ts'

const runs: Readonly<Record<ConnectorClauseId, ConnectorClauseRun>> = {
  ...manifest,
  ...straightPath,
  ...hooks,
  ...leases,
  ...aborts,
  ...failures,
  ...messages,
  ...identity,
  ...bounds,
  ...closing,
  ...capabilities,
  ...returningPrompts,
}

/** Why the manifest rules the clause out; null when it applies. */
export function reasonByManifest(
  { needs = {} }: ConnectorClause,
  manifestOf: ConnectorCapabilities,
): string | null {
  for (const [name, values] of Object.entries(needs)) {
    // What was added later is absent in older ones, and means no.
    const value = manifestOf[name as keyof ConnectorCapabilities] ?? false
    if ((values as readonly unknown[]).includes(value)) continue
    return value === undefined ? `no ${name}` : `${name} is ${String(value)}`
  }
  return null
}

/** Never throws for a failed clause, only for an unknown id. */
export async function runConnectorClause(
  id: ConnectorClauseId,
  target: ConnectorTarget,
): Promise<ClauseOutcome> {
  const clause: ConnectorClause | undefined = connectorClauses.find((other) => other.id === id)
  if (clause === undefined) throw new RangeError(`no clause ${id}`)
  const reason = reasonByManifest(clause, target.factory.capabilities)
  if (reason !== null) return { kind: 'skipped', reason }
  try {
    await runs[id](new ConnectorContext(completeTarget(target)))
    return { kind: 'passed' }
  } catch (error) {
    return { kind: 'failed', error }
  }
}
