/** Between the engines of the model: READs page by page, messages in any order, and what goes wrong. */
import type { Instant } from '@kvferry/connector-api'
import type { LeaseAnswer } from '../../src/messages.ts'
import { associationEnd } from './connection.ts'
import { createConsumer } from './consumer.ts'
import { completeRead, errorOf, readEvent, readerOf, shareOf } from './loads.ts'
import { createProducer, leaseEvent, names } from './producer.ts'
import type { Rules } from './rules.ts'
import {
  connectionKey,
  pairsOf,
  producerRankOf,
  type ClusterState,
  type ConsumerName,
  type Message,
  type OpenTransfer,
  type ProducerName,
} from './state.ts'

/** One block is copied, as it is at this moment. */
export function copyBlock(state: ClusterState, transfer: OpenTransfer): void {
  const { consumer, job, pair, producer, remains } = transfer
  const source = remains ?? state.producers[producer]!.memory
  const request = state.consumers[consumer]!.requests[job]
  const memory = state.consumers[consumer]!.memory[pair]!
  // Its request may be over and its blocks another's: the READ writes there all the same.
  const blocks = request?.blocks ?? []
  const block = blocks[transfer.copied]
  if (block !== undefined) memory[block] = source[request!.remoteBlocks[transfer.copied]!]!
  transfer.copied += 1
}

/** Its final status: from now on it touches nothing. */
export function endRead(state: ClusterState, transfer: OpenTransfer, isDone: boolean): void {
  const { consumer, job, pair, producer, producerLife, remains } = transfer
  state.transfers = state.transfers.filter((open) => open !== transfer)
  state.messages.push({ kind: 'completion', consumer, job, pair, isDone })
  const request = state.consumers[consumer]!.requests[job]
  if (!isDone || remains !== null || request === undefined) return
  const reader = readerOf(state, consumer, request)
  const event = { kind: 'read-done', reader, share: shareOf(state, pair) } as const
  state.messages.push({ kind: 'news', event, job, pair, producer, producerLife })
}

export function deliver(state: ClusterState, rules: Rules, message: Message): void {
  switch (message.kind) {
    case 'question': {
      const { consumer, job, pair, producer, producerLife, reader, share, sentAt } = message
      const isThere = state.producers[producer]!.life === producerLife
      const rank = producerRankOf(state.ranks, pair)
      const answer = isThere
        ? leaseEvent(state, rules, producer, job, rank, { kind: 'renew', reader, share })
        : null
      if (answer === null) state.messages.push({ kind: 'silence', consumer, job, pair })
      else state.messages.push({ kind: 'answer', consumer, job, pair, producer, answer, sentAt })
      return
    }
    case 'answer':
      readEvent(
        ...([state, rules, message.consumer, message.job, message.pair] as const),
        eventOf(message.answer, message.sentAt),
      )
      return
    case 'silence':
      readEvent(state, rules, message.consumer, message.job, message.pair, {
        kind: 'lease-silence',
        error: errorOf('ERR_KV_PEER_UNAVAILABLE'),
      })
      return
    case 'news': {
      const { producer, producerLife, job, pair, event } = message
      // A dead agent hears nothing; a release to another life is refused by its incarnation.
      const isThere = state.producers[producer]!.life === producerLife
      const rank = producerRankOf(state.ranks, pair)
      if (isThere) leaseEvent(state, rules, producer, job, rank, event)
      return
    }
    case 'completion':
      completeRead(state, rules, message.consumer, message.job, message.pair, message.isDone)
      return
    case 'association-end':
      associationEnd(state, rules, message.consumer, message.key)
      return
  }
}

function eventOf(answer: LeaseAnswer, sentAt: Instant) {
  switch (answer.kind) {
    case 'granted':
      return { kind: 'lease-grant', sentAt, durationMs: answer.durationMs } as const
    case 'completed':
      return { kind: 'lease-complete' } as const
    case 'unknown':
    case 'claimed':
      return { kind: 'lease-refuse', error: errorOf(answer.kind) } as const
  }
}

/** What was on its way between the two is lost, and either end will hear of it. */
export function breakAssociation(state: ClusterState, consumer: ConsumerName, key: string): void {
  const record = state.consumers[consumer]!.connections[key]!
  record.isOpen = false
  state.messages.push({ kind: 'association-end', consumer, key })
  const [producer, , pair] = key.split('/')
  state.messages = state.messages.map((message) => {
    const isBetween =
      (message.kind === 'question' || message.kind === 'answer') &&
      message.consumer === consumer &&
      message.producer === producer &&
      message.pair === Number(pair)
    if (!isBetween) return message
    return { kind: 'silence', consumer, job: message.job, pair: message.pair }
  })
}

/** SIGKILL of a producer; its next life computes the same ids anew, with other bytes. */
export function killProducer(state: ClusterState, name: ProducerName): void {
  const { life, memory, requests } = state.producers[name]!
  for (const transfer of state.transfers) {
    if (transfer.producer !== name || transfer.remains !== null) continue
    Object.assign(transfer, { remains: memory })
  }
  state.producers[name] = createProducer(life + 1, Object.keys(requests), state.ranks.producer)
  for (const consumer of names(state.consumers)) {
    for (const pair of pairsOf(state.ranks)) {
      const key = connectionKey(name, life, pair)
      const isOpen = state.consumers[consumer]!.connections[key]?.isOpen
      if (isOpen) breakAssociation(state, consumer, key)
    }
  }
}

/** SIGKILL of a consumer: its READs end with it; the router asks its next life for what it had. */
export function killConsumer(state: ClusterState, name: ConsumerName): void {
  const { life, requests } = state.consumers[name]!
  state.transfers = state.transfers.filter(({ consumer }) => consumer !== name)
  state.messages = state.messages.filter(
    (message) => !('consumer' in message) || message.consumer !== name,
  )
  state.consumers[name] = createConsumer(life + 1, state.ranks)
  for (const job of Object.keys(requests)) state.dispatches.push({ job, consumer: name })
}

export const passDeadline = (state: ClusterState, rules: Rules, transfer: OpenTransfer): void => {
  transfer.isOverdue = true
  const { consumer, job, pair } = transfer
  readEvent(state, rules, consumer, job, pair, { kind: 'transfer-overdue' })
}
