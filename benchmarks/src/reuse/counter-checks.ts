/**
 * What the counters must say, beside the latencies: that the effect comes from the history, and that nothing
 * came from it in the controls. Pure.
 */
import { createChecks } from '../compare/verdict.ts'
import { historyNames, type HistoryCounters } from '../experiments/history-counters.ts'
import { checkReported, checkTickets, type Check } from '../experiments/ticket-checks.ts'
import { percentText } from '../lib/percent-text.ts'
import type { ReuseRunEntry, ReuseWorkload } from './result.ts'

/** Share of the complete prompt blocks of all revisits. */
const wholePrefixShare = 0.95
/** More is no negative control. */
export const clearlyFewerShare = 0.8

export const hitShareOf = ({ revisitHistory, revisitBlocks }: ReuseRunEntry): number =>
  revisitBlocks === 0 ? 0 : revisitHistory.hitBlocks / revisitBlocks

/** Counters of the tickets, which stay in use with a budget of 0. */
const ticketCounters: readonly (keyof HistoryCounters)[] = ['registered', 'finished']

function nothingIn(run: ReuseRunEntry, check: Check): void {
  const counted = historyNames.filter(
    (name) => !ticketCounters.includes(name) && run.history[name] !== 0,
  )
  const text = counted.map((name) => `${name} ${run.history[name]}`).join(', ')
  check(counted.length === 0, `a control counted ${text}`)
}

function hotChecks(run: ReuseRunEntry, workload: ReuseWorkload, check: Check): void {
  const { loads, deviceHitBlocks, hostHitBlocks } = run.revisitHistory
  // Requests that are served together may be preempted, and load again.
  const isOneEach = workload.concurrency === 1 ? loads === run.revisits : loads >= run.revisits
  check(isOneEach, `${loads} history loads for ${run.revisits} revisits`)
  const share = hitShareOf(run)
  check(
    share >= wholePrefixShare,
    `revisits got ${percentText(share)} of their blocks from the history, at least ${percentText(wholePrefixShare)} expected`,
  )
  check(
    deviceHitBlocks > 0 && hostHitBlocks > 0,
    `${deviceHitBlocks} blocks from the device tier and ${hostHitBlocks} from the host tier: both are expected`,
  )
}

function changingChecks(run: ReuseRunEntry, check: Check): void {
  check(run.history.rejectedBlocks > 0, 'admission rejected nothing: the history was never full')
  const share = hitShareOf(run)
  check(
    share <= clearlyFewerShare,
    `revisits got ${percentText(share)} of their blocks: no negative control (at most ${percentText(clearlyFewerShare)} expected)`,
  )
}

function tierChecks(run: ReuseRunEntry, check: Check): void {
  const { deviceHitBlocks, hostHitBlocks, demotions } = run.history
  check(
    hostHitBlocks > deviceHitBlocks && deviceHitBlocks > 0,
    `${deviceHitBlocks} blocks from the device tier and ${hostHitBlocks} from the host tier: some and more are expected`,
  )
  check(demotions > 0, 'nothing was demoted')
}

/** `requests` of the workload are those of one trial. */
export function counterChecks(run: ReuseRunEntry, workload: ReuseWorkload): string[] {
  const { failures, check } = createChecks(run.label)
  const sent = workload.requests * workload.trials
  if (run.role === 'history') {
    checkReported(run.missingCounters, check)
    checkTickets(run.history, sent, check)
    const { hitBlocks, deviceHitBlocks, hostHitBlocks } = run.history
    check(
      hitBlocks === deviceHitBlocks + hostHitBlocks,
      `${hitBlocks} hits, but ${deviceHitBlocks} and ${hostHitBlocks} by tier`,
    )
    if (workload.workingSet === 'hot') hotChecks(run, workload, check)
    else if (workload.workingSet === 'changing') changingChecks(run, check)
    else tierChecks(run, check)
  } else {
    // A baseline may have tickets, too; what it may not have is a history.
    if (run.role === 'no-history' || run.history.registered > 0) {
      checkTickets(run.history, sent, check)
    }
    nothingIn(run, check)
  }
  return failures
}
