/** `docs/reference/conformance.md` is made from the clauses of both suites; `vitest -u` writes it anew. */
import { expect, it } from 'vitest'
import { agentClauses, agentGroups, type AgentClause } from '../src/conformance/clauses.ts'
import {
  connectorClauses,
  connectorGroups,
  type ConnectorClause,
} from '../src/conformance/connector-clauses.ts'

type Row = readonly [id: string, sentence: string, applies: string]

const needsOf = ({ needs = {} }: ConnectorClause): string =>
  Object.entries(needs)
    .map(([name, values]) => `\`${name}\` is ${values.map((value) => `\`${value}\``).join(' or ')}`)
    .join(', ')

function tables(groups: Readonly<Record<string, string>>, rows: readonly Row[]): string {
  return Object.entries(groups)
    .map(([group, title]) => {
      const own = rows.filter(([id]) => id.split('.')[0] === group)
      const lines = own.map((row) => `| ${row.join(' | ')} |`)
      return [
        `### ${group} ${title}`,
        '',
        '| id | clause | only if |',
        '| --- | --- | --- |',
        ...lines,
      ].join('\n')
    })
    .join('\n\n')
}

const agentRows = agentClauses.map((clause: AgentClause): Row => {
  const needs = (clause.needs ?? []).map((need) => `the harness has \`${need}\``)
  return [clause.id, clause.sentence, needs.join(', ')]
})
const connectorRows = connectorClauses.map((clause: ConnectorClause): Row => [
  clause.id,
  clause.sentence,
  needsOf(clause),
])

const page = `# Conformance

What every connector and every transfer agent must do, clause by clause. A test's title begins with its clause's id.
[Write a connector](../how-to/write-a-connector.md) says how to run the suites. A clause is skipped only for the
reason in its last column; the other branch (refusal) is then a clause of its own.

## Connectors

${tables(connectorGroups, connectorRows)}

## Transfer agents

${tables(agentGroups, agentRows)}
`

it('the page of clauses says what the suites say', async () => {
  await expect(page).toMatchFileSnapshot('../../../docs/reference/conformance.md')
})
