import { readFileSync } from 'node:fs'
import { loadConnector } from '@kvferry/connector-api'
import { diagramsOf, transitionDiagram } from '@kvferry/connector-api/conformance'
import { consumerRequestTransitions } from '@kvferry/connector-api/protocol'
import { registrationTransitions } from '@kvferry/connector-api/remote-writes'
import { expect, test } from 'vitest'
import { parseXavierOptions, xavier, xavierLimits } from '../src/index.ts'
import { reservationTransitions } from '../src/history/reservation-transitions.ts'
import { returningTransitions } from '../src/history/returning-transitions.ts'
import { ticketTransitions } from '../src/ticket-transitions.ts'

const readme = readFileSync(new URL('../README.md', import.meta.url), 'utf8')

test('the table of options has every option with its default', () => {
  const rows = [...readme.matchAll(/^\| `(\w+)` \| `([\w-]+)` \|/gm)]
  const documented = Object.fromEntries(rows.map(([, name, value]) => [name, value]))
  const defaults = Object.entries(parseXavierOptions({})).map(([name, value]) => [name, `${value}`])
  expect(documented).toEqual(Object.fromEntries(defaults))
})

test('the config word loads the factory', async () => {
  const loaded = await loadConnector('xavier', () => import('../src/index.ts'))
  expect(loaded).toBe(xavier)
})

test('the diagrams are the tables', () => {
  const tables = [
    ...[ticketTransitions, consumerRequestTransitions, registrationTransitions],
    ...[returningTransitions, reservationTransitions],
  ]
  expect(diagramsOf(readme)).toEqual(tables.map((table) => transitionDiagram(table)))
})

test('RT-16: the guide says how long things are kept, by whom, and what becomes of the rest', () => {
  const page = new URL('../../../docs/how-to/tiered-history.md', import.meta.url)
  const guide = readFileSync(page, 'utf8')
  const { unclaimedTicketMs, claimedTicketMs, gpuCacheBytes } = xavierLimits
  for (const said of [
    `${unclaimedTicketMs / 1_000} s (\`unclaimedTicketMs\`)`,
    `${claimedTicketMs / 60_000} min after that engine's last word`,
    'a late decode engine computes the prompt',
    '**Only P keeps one.**',
    "what isn't copied isn't kept",
    '`n` above 1 is refused',
    "up to the size of the engine's whole KV cache",
    gpuCacheBytes.toLocaleString('en'),
  ]) {
    expect(guide).toContain(said)
  }
})
