/** Between the engines of the model: READs page by page, messages in any order, and what goes wrong. */
import type { Instant } from '@kvferry/connector-api'
import type { LeaseAnswer } from '../../src/messages.ts'
import { associationEnd } from './connection.ts'
import { completeRead, createConsumer, errorOf, loadEvent, readerOf } from './consumer.ts'
import { createProducer, leaseEvent, names } from './producer.ts'
import type { Rules } from './rules.ts'
import {
  connectionKey,
  type ClusterState,
  type ConsumerName,
  type Message,
  type OpenTransfer,
  type ProducerName,
} from './state.ts'

const isOf = (transfer: OpenTransfer, consumer: ConsumerName, job: string): boolean =>
  transfer.consumer === consumer && transfer.job === job

/** One block is copied, as it is at this moment. */
export function copyBlock(state: ClusterState, transfer: OpenTransfer): void {
  const { consumer, job, producer, remains } = transfer
  const source = remains ?? state.producers[producer]!.memory
  const request = state.consumers[consumer]!.requests[job]
  const memory = state.consumers[consumer]!.memory
  // Its request may be over and its blocks another's: the READ writes there all the same.
  const blocks = request?.blocks ?? []
  const block = blocks[transfer.copied]
  if (block !== undefined) memory[block] = source[request!.remoteBlocks[transfer.copied]!]!
  transfer.copied += 1
}

/** Its final status: from now on it touches nothing. */
export function endRead(state: ClusterState, transfer: OpenTransfer, isDone: boolean): void {
  const { consumer, job, producer, producerLife, remains } = transfer
  state.transfers = state.transfers.filter((open) => open !== transfer)
  state.messages.push({ kind: 'completion', consumer, job, isDone })
  const request = state.consumers[consumer]!.requests[job]
  if (!isDone || remains !== null || request === undefined) return
  const event = { kind: 'read-done', reader: readerOf(state, consumer, request) } as const
  state.messages.push({ kind: 'news', event, job, producer, producerLife })
}

export function deliver(state: ClusterState, rules: Rules, message: Message): void {
  switch (message.kind) {
    case 'question': {
      const { consumer, job, producer, producerLife, reader, sentAt } = message
      const isThere = state.producers[producer]!.life === producerLife
      const answer = isThere
        ? leaseEvent(state, rules, producer, job, { kind: 'renew', reader })
        : null
      if (answer === null) state.messages.push({ kind: 'silence', consumer, job })
      else state.messages.push({ kind: 'answer', consumer, job, producer, answer, sentAt })
      return
    }
    case 'answer':
      loadEvent(
        state,
        rules,
        message.consumer,
        message.job,
        eventOf(message.answer, message.sentAt),
      )
      return
    case 'silence':
      loadEvent(state, rules, message.consumer, message.job, {
        kind: 'lease-silence',
        error: errorOf('ERR_KV_PEER_UNAVAILABLE'),
      })
      return
    case 'news': {
      const { producer, producerLife, job, event } = message
      // A dead agent hears nothing; a release to another life is refused by its incarnation.
      const isThere = state.producers[producer]!.life === producerLife
      if (isThere) leaseEvent(state, rules, producer, job, event)
      return
    }
    case 'completion':
      completeRead(state, rules, message.consumer, message.job, message.isDone)
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
  const [producer] = key.split('/')
  state.messages = state.messages.map((message) => {
    const isBetween =
      (message.kind === 'question' || message.kind === 'answer') &&
      message.consumer === consumer &&
      message.producer === producer
    return isBetween ? { kind: 'silence', consumer, job: message.job } : message
  })
}

/** SIGKILL of a producer; its next life computes the same ids anew, with other bytes. */
export function killProducer(state: ClusterState, name: ProducerName): void {
  const { life, memory, requests } = state.producers[name]!
  for (const transfer of state.transfers) {
    if (transfer.producer !== name || transfer.remains !== null) continue
    Object.assign(transfer, { remains: memory })
  }
  state.producers[name] = createProducer(life + 1, Object.keys(requests))
  for (const consumer of names(state.consumers)) {
    const key = connectionKey(name, life)
    if (state.consumers[consumer]!.connections[key]?.isOpen) breakAssociation(state, consumer, key)
  }
}

/** SIGKILL of a consumer: its READs end with it; the router asks its next life for what it had. */
export function killConsumer(state: ClusterState, name: ConsumerName): void {
  const { life, requests } = state.consumers[name]!
  state.transfers = state.transfers.filter(({ consumer }) => consumer !== name)
  state.messages = state.messages.filter(
    (message) => !('consumer' in message) || message.consumer !== name,
  )
  state.consumers[name] = createConsumer(life + 1)
  for (const job of Object.keys(requests)) state.dispatches.push({ job, consumer: name })
}

export const passDeadline = (state: ClusterState, rules: Rules, transfer: OpenTransfer): void => {
  transfer.isOverdue = true
  loadEvent(state, rules, transfer.consumer, transfer.job, { kind: 'transfer-overdue' })
}

export { isOf }
