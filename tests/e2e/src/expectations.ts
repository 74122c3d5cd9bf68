/** What must hold after a fault: one right outcome per request, and nothing kept by anyone. */
import { expect } from 'vitest'
import type { Outcome } from './completions.ts'
import type { Deployment, EngineName } from './deployment.ts'
import { abandonedSharedMemory } from './process-facts.ts'
import { waitUntil } from './wait-until.ts'

/** Codes with which a request may end when an engine died; anything else (a hang, a bare 500) is a defect. */
const typedCode = /^ERR_KV_[A-Z_]+$/

/** Each outcome is the oracle's text, or an error with one of our codes; never a wrong or cut text. */
export function expectOneOutcomeEach(
  outcomes: readonly Outcome[],
  oracle: readonly Outcome[],
): void {
  outcomes.forEach((outcome, index) => {
    if (outcome.kind === 'text') expect(outcome, `text of request ${index}`).toEqual(oracle[index])
    else expect(outcome.code, `error of request ${index}`).toMatch(typedCode)
  })
}

/** Every block is free or merely cached again: no lease, owner or quarantine is left. */
export async function expectNoBlockKept(
  deployment: Deployment,
  name: EngineName,
  timeoutMs?: number,
): Promise<void> {
  let last = ''
  const isFree = async (): Promise<boolean> => {
    const { blocks } = await deployment.stats(name)
    last = JSON.stringify(blocks)
    const isHeld = blocks.owned + blocks.leased + blocks.quarantined > 0
    // Its books are of one moment: a request may come in the next one.
    if (!isHeld) expect(blocks.free + blocks.cached, last).toBe(blocks.total)
    if (!isHeld) return true
    throw new Error(last)
  }
  await waitUntil(`${name} holds no block`, isFree, timeoutMs)
}

/** Nothing of a connector's or an agent's is under way, pinned, or out of service. */
const gauges = ['leasesOpen', 'blocksQuarantined', 'historyLeasesOpen', 'historySlotsQuarantined']

/** No lease, ticket, reservation, quarantine or transfer is open; each ticket that was registered has ended. */
export async function expectNothingOpen(
  deployment: Deployment,
  name: EngineName,
  timeoutMs?: number,
): Promise<void> {
  const isOver = async (): Promise<boolean> => {
    const { connectorCounters: counters, agentCounters } = await deployment.stats(name)
    const { ticketsRegistered = 0, ticketsFinished = 0 } = counters
    const open = gauges.filter((gauge) => (counters[gauge] ?? 0) !== 0)
    if (open.length + agentCounters.transfersOpen === 0 && ticketsRegistered === ticketsFinished) {
      return true
    }
    throw new Error(JSON.stringify({ counters, agentCounters }))
  }
  await waitUntil(`${name} has nothing open`, isOver, timeoutMs)
}

/** Nothing is abandoned in shared memory that was not before. A neighbour may be about to map what it made. */
export async function expectNothingAbandoned(before: readonly string[]): Promise<void> {
  await waitUntil('nothing is left in shared memory', () => {
    const left = abandonedSharedMemory().filter((name) => !before.includes(name))
    if (left.length === 0) return true
    throw new Error(left.join(' '))
  })
}
