/** The agent suite as vitest tests: one per clause, titled with its id, skips with their reason. */
import { afterAll, describe, test } from 'vitest'
import { agentClauses, agentGroups } from './clauses.ts'
import type { AgentClause, AgentGroup } from './clauses.ts'
import type { AgentHarness } from './harness.ts'
import { reasonToSkip, runAgentClause } from './run-clause.ts'

const groupOf = (clause: AgentClause): AgentGroup => clause.id.split('.')[0] as AgentGroup

/** Declares the whole suite for one implementation. Call it at the top level of a test file. */
export function runAgentConformance(
  name: string,
  harness: AgentHarness,
  options: { readonly clauseTimeoutMs?: number } = {},
): void {
  const timeout = options.clauseTimeoutMs ?? 120_000
  describe(`agent conformance: ${name}`, () => {
    afterAll(() => harness.close())
    for (const [group, groupTitle] of Object.entries(agentGroups)) {
      describe(`${group} ${groupTitle}`, () => {
        for (const clause of agentClauses) {
          if (groupOf(clause) !== group) continue
          const reason = reasonToSkip(clause, harness)
          // In the title too: reports list titles, and a skip without its reason looks like an oversight.
          const title =
            reason === null ? clause.sentence : `${clause.sentence} (skipped: ${reason})`
          test(`${clause.id} ${title}`, { timeout }, async ({ skip }) => {
            if (reason !== null) return skip(reason)
            const outcome = await runAgentClause(clause.id, harness)
            if (outcome.kind === 'failed') throw outcome.error
          })
        }
      })
    }
  })
}
