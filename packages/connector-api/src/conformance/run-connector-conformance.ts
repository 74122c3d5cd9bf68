/** The connector suite as vitest tests: one per clause, titled with its id, skips with their reason. */
import { describe, test } from 'vitest'
import { connectorClauses, connectorGroups } from './connector-clauses.ts'
import type { ConnectorClause, ConnectorGroup } from './connector-clauses.ts'
import type { ConnectorTarget } from './connector-target.ts'
import { reasonByManifest, runConnectorClause } from './run-connector-clause.ts'

const clauseTimeoutMs = 60_000

/**
 * Declares the suite for one connector: all of it, or the groups that a variant can change. Call it at the
 * top level of a test file.
 */
export function runConnectorConformance(
  name: string,
  target: ConnectorTarget,
  options: { readonly groups?: readonly ConnectorGroup[] } = {},
): void {
  describe(`connector conformance: ${name}`, () => {
    for (const [group, groupTitle] of Object.entries(connectorGroups)) {
      if (options.groups?.includes(group as ConnectorGroup) === false) continue
      describe(`${group} ${groupTitle}`, () => {
        for (const { id } of connectorClauses) {
          if (id.split('.')[0] !== group) continue
          const clause: ConnectorClause = connectorClauses.find((other) => other.id === id)!
          const reason = reasonByManifest(clause, target.factory.capabilities)
          // In the title too: reports list titles, and a skip without its reason looks like an oversight.
          const title =
            reason === null ? clause.sentence : `${clause.sentence} (skipped: ${reason})`
          test(`${id} ${title}`, { timeout: clauseTimeoutMs }, async ({ skip }) => {
            if (reason !== null) return skip(reason)
            const outcome = await runConnectorClause(id, target)
            if (outcome.kind === 'failed') throw outcome.error
          })
        }
      })
    }
  })
}
