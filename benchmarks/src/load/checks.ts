/** What a load experiment must show for its numbers to mean what they say. Pure. */
import { createChecks } from '../compare/verdict.ts'
import { historyNames } from '../experiments/history-counters.ts'
import { checkReported, checkTickets } from '../experiments/ticket-checks.ts'
import type { LoadRunEntry, LoadWorkload } from './result.ts'

/** `requests` of the workload are those of one trial. */
export function loadChecks(run: LoadRunEntry, workload: LoadWorkload): string[] {
  const { failures, check } = createChecks(run.label)
  check(
    run.coldDuringDecode === run.coldArrivals,
    `${run.coldArrivals - run.coldDuringDecode} of ${run.coldArrivals} cold arrivals met no decode in the background`,
  )
  if (run.role === 'direct' || run.role === 'snapshot') {
    checkReported(run.missingCounters, check)
    checkTickets(run.history, workload.requests * workload.trials, check)
  } else {
    const counted = historyNames.filter((name) => run.history[name] !== 0)
    check(counted.length === 0, `counted ${counted.join(', ')} without tickets or history`)
  }
  return failures
}
