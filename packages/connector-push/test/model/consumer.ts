/** The consumer of the model: loads over registrations, as load-table.ts and part-table.ts carry them out. */
import type { Instant } from '@kvferry/connector-api'
import { stepLoad, type LoadEvent } from '@kvferry/connector-api/protocol'
import {
  isRegistrationOver,
  stepRegistration,
  type RegistrationEvent,
} from '@kvferry/connector-api/remote-writes'
import type { Rules } from './rules.ts'
import { error, fail, send, type ModelState } from './state.ts'

const now = 0 as Instant

export function loadEvent(state: ModelState, rules: Rules, at: number, event: LoadEvent): void {
  const job = state.jobs[at]!
  if (job.isConsumerDead || !job.hasStarted) return
  const { state: next, effects } = stepLoad(job.load, event, now, undefined)
  job.load = next
  for (const effect of effects) {
    switch (effect.kind) {
      case 'end-parts':
        for (const [index, { registration }] of job.pairs.entries()) {
          if (isRegistrationOver(registration)) continue
          registrationEvent(state, rules, at, index, { kind: 'withdraw', reason: effect.reason })
        }
        break
      case 'finish':
        loadEvent(state, rules, at, { kind: 'finish-end', error: null })
        break
      case 'report':
        if (!job.isReported || !reportsEarly(rules)) {
          report(state, at, effect.outcome.kind === 'loaded')
        }
    }
  }
  const isEarly =
    (rules.freesAtAbort && event.kind === 'abort') ||
    (rules.reportsFirstFailure && event.kind === 'part-failed')
  if (isEarly && !job.isReported) report(state, at, false)
}

const reportsEarly = ({ freesAtAbort, reportsFirstFailure }: Rules): boolean =>
  freesAtAbort || reportsFirstFailure

/** Its blocks are the engine's from here on. */
function report(state: ModelState, at: number, isLoaded: boolean): void {
  const job = state.jobs[at]!
  if (job.isReported) fail(state, `once: job ${at} is reported twice`)
  job.isReported = true
  const isWrong = job.pairs.some(({ landed }) => landed.some((what) => what !== 'good'))
  if (isLoaded && isWrong) fail(state, `S2: job ${at} is loaded with other bytes`)
}

export function registrationEvent(
  state: ModelState,
  rules: Rules,
  at: number,
  index: number,
  event: RegistrationEvent,
): void {
  const job = state.jobs[at]!
  const pair = job.pairs[index]!
  if (job.isConsumerDead) return
  const before = pair.registration
  const { state: next, effects } = stepRegistration(before, event, now, undefined)
  pair.registration = next
  for (const { kind } of effects) {
    if (kind === 'register') {
      pair.askedLife = pair.life
      ask(state, at, index, 'register')
    } else if (kind === 'withdraw') withdraw(state, rules, at, index)
    else if (kind === 'withdraw-later') pair.isRetrying = true
    else send(state, { kind: 'release', job: at, pair: index, life: pair.life })
  }
  if (isRegistrationOver(before) || !isRegistrationOver(next)) return
  pair.isRetrying = false
  loadEvent(
    state,
    rules,
    at,
    next.kind === 'written' ? { kind: 'part-done' } : { kind: 'part-failed', error },
  )
}

/** As `withdraw` of registration-client.ts: proof first, then the question. */
export function withdraw(state: ModelState, rules: Rules, at: number, index: number): void {
  const pair = state.jobs[at]!.pairs[index]!
  pair.isRetrying = false
  const hasEnded = !pair.livingLives.includes(pair.askedLife)
  if (hasEnded || rules.believesSilence) {
    registrationEvent(state, rules, at, index, { kind: 'writer-end' })
  } else if (pair.life === pair.askedLife || rules.ignoresLives) ask(state, at, index, 'withdraw')
  else registrationEvent(state, rules, at, index, { kind: 'silence', error })
}

/** A question finds its way, or the consumer hears that there is none. */
function ask(state: ModelState, at: number, index: number, kind: 'register' | 'withdraw'): void {
  const pair = state.jobs[at]!.pairs[index]!
  pair.isLinked = true
  send(state, { kind, job: at, pair: index, life: pair.life })
}
