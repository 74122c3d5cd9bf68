/** `docs/reference/metrics.md` is made from the table of metrics; `vitest -u` writes it anew. */
import { expect, it } from 'vitest'
import { metricDefinitions } from '../src/metrics.ts'

const rows = Object.entries(metricDefinitions).map(([name, { kind, help, labels }]) => {
  const shown = labels.length === 0 ? '–' : labels.map((label) => `\`${label}\``).join(', ')
  return `| \`${name}\` | ${kind} | ${shown} | ${help} |`
})

const page = `# Metrics

Every connector and side channel counts in these terms; engines and the router serve them at \`GET /metrics\` in
Prometheus form, beside their own (\`kvferry_engine_*\`, \`kv_router_*\`: see their READMEs). A metric that is used
with a wrong name, label or value is not thrown but counted in \`kv_metric_misuses_total\`.

| metric | kind | labels | meaning |
| --- | --- | --- | --- |
${rows.join('\n')}

## What to alarm on

- \`kv_blocks_quarantined\` above 0 for longer than a transfer deadline: a peer does not end its transfers.
- \`kv_loads_failed_total\` by \`code\`: each of these requests was computed again, or failed.
- \`kv_leases_expired_total\`: readers died, or queue longer than the lease lasts.
- \`kv_messages_refused_total{where="notification"}\`: someone who was not let in speaks to the agent.
`

it('the page of metrics says what the table says', async () => {
  await expect(page).toMatchFileSnapshot('../../../docs/reference/metrics.md')
})
