/** What happens at a producer of the model: the shipped machines decide, this performs their effects. */
import type { Instant } from '@kvferry/connector-api'
import type { LeaseEvent } from '../../src/lease-state.ts'
import type { LeaseAnswer } from '../../src/messages.ts'
import type { Rules } from './rules.ts'
import {
  contentOf,
  type ClusterState,
  type ProducerEntry,
  type ProducerName,
  type ProducerState,
} from './state.ts'

export const leaseDurationMs = 2_000
const leaseContext = { leaseDurationMs, completedReadRetentionMs: 1_000 }

/** Blocks of each job, the same numbers on every engine: three in all. */
export const blocksOf: Readonly<Record<string, readonly number[]>> = { A: [0, 1], B: [2] }
const blockCount = 3
export const emptyMemory = (): string[] => Array.from({ length: blockCount }, () => 'x')

/** Its jobs are computed, and known to both halves. */
export function createProducer(
  life: number,
  jobs: readonly string[],
  rankCount: number,
): ProducerState {
  const memory = emptyMemory()
  for (const job of jobs) for (const block of blocksOf[job]!) memory[block] = contentOf(job, life)
  const requests = Object.fromEntries(
    jobs.map((job) => [
      job,
      {
        request: { kind: 'announced' as const },
        leases: Array.from({ length: rankCount }, () => ({
          state: { kind: 'announced' as const, claim: null, promisedUntil: null },
          timerAt: null,
        })),
        blocks: blocksOf[job]!,
        sentCount: 0,
      },
    ]),
  )
  return { life, memory, requests, outbox: [], sent: [] }
}

/** The job's one token is computed: the engine keeps the blocks, the router gets the handoff. */
export function finishPrefill(
  state: ClusterState,
  rules: Rules,
  name: ProducerName,
  job: string,
): void {
  const producer = state.producers[name]!
  const record = producer.requests[job]!
  const event = { kind: 'finished-readable' } as const
  const next = rules.producer(record.request, event, state.now, { leaseDurationMs })
  record.request = next.state
  for (const effect of next.effects) {
    if (effect.kind === 'lease') {
      producer.outbox.push({ kind: 'lease', job, deadline: known(effect.deadline) })
    }
  }
  state.handoffs.push({
    job,
    producer: name,
    producerLife: producer.life,
    blocks: record.blocks,
  })
}

/** Its answer reaches nobody, as the engine believes: the handoff may be with a consumer all the same. */
export function loseAnswer(
  state: ClusterState,
  rules: Rules,
  name: ProducerName,
  job: string,
): void {
  const producer = state.producers[name]!
  const record = producer.requests[job]!
  const event = { kind: 'undelivered' } as const
  const { effects } = rules.producer(record.request, event, state.now, { leaseDurationMs })
  for (const { kind } of effects) if (kind === 'undelivered') producer.outbox.push({ kind, job })
}

/** One engine step: the scheduler half's words reach the worker half, and the reports come back. */
export function stepProducerEngine(state: ClusterState, rules: Rules, name: ProducerName): void {
  const producer = state.producers[name]!
  const { outbox } = producer
  producer.outbox = []
  for (const entry of outbox) {
    const event = leaseEventOf(entry, state.now)
    if (event === null) continue
    for (const rank of producer.requests[entry.job]!.leases.keys()) {
      leaseEvent(state, rules, name, entry.job, rank, event)
    }
  }
  const { sent } = producer
  producer.sent = []
  for (const job of sent) {
    const record = producer.requests[job]!
    record.request = rules.producer(record.request, { kind: 'sent' }, state.now, {
      leaseDurationMs,
    }).state
    // The engine gives the blocks to others at once.
    for (const block of record.blocks) producer.memory[block] = 'x'
  }
}

function leaseEventOf(entry: ProducerEntry, now: Instant): LeaseEvent | null {
  switch (entry.kind) {
    case 'lease':
      return { kind: 'lease-start', remainingMs: Math.max(0, entry.deadline - now) }
    case 'undelivered':
      return { kind: 'undelivered' }
    case 'withdraw':
      return null
  }
}

/** Null when there is no answer to be had. */
export function leaseEvent(
  state: ClusterState,
  rules: Rules,
  name: ProducerName,
  job: string,
  rank: number,
  event: LeaseEvent,
): LeaseAnswer | null {
  const producer = state.producers[name]!
  const record = producer.requests[job]!
  const lease = record.leases[rank]!
  if (lease.state === null) return event.kind === 'renew' ? { kind: 'unknown' } : null
  const next = rules.lease(lease.state, event, state.now, leaseContext)
  lease.state = next.state.kind === 'ended' ? null : next.state
  if (lease.state === null) lease.timerAt = null
  let answer: LeaseAnswer | null = null
  for (const effect of next.effects) {
    if (effect.kind === 'answer') answer = effect.answer
    else if (effect.kind === 'arm') lease.timerAt = known(effect.at)
    else if (effect.kind === 'report-sent') {
      record.sentCount += 1
      if (record.sentCount === record.leases.length) producer.sent.push(job)
    }
  }
  return answer
}

/** A time that is none would never come, and nobody would notice. */
function known(at: Instant): Instant {
  if (!Number.isFinite(at)) throw new Error(`a time of ${at}`)
  return at
}

/** Timers that ring at or after their time, in any order. */
export function dueTimers({ producers, now }: ClusterState): [ProducerName, string, number][] {
  return names(producers).flatMap((name) =>
    Object.entries(producers[name]!.requests).flatMap(([job, { leases }]) =>
      [...leases.entries()]
        .filter(([, { timerAt }]) => timerAt !== null && timerAt <= now)
        .map(([rank]): [ProducerName, string, number] => [name, job, rank]),
    ),
  )
}

export const hasLaterTimer = ({ producers, now }: ClusterState): boolean =>
  names(producers).some((name) =>
    Object.values(producers[name]!.requests).some(({ leases }) =>
      leases.some(({ timerAt }) => timerAt !== null && timerAt > now),
    ),
  )

export const names = <Name extends string>(of: Partial<Record<Name, unknown>>): Name[] =>
  Object.keys(of) as Name[]

export const instant = (ms: number): Instant => ms as Instant
