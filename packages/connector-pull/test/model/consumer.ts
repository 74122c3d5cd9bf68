/** What happens at a consumer of the model: the shipped machines decide, this performs their effects. */
import type { LoadOutcome } from '@kvferry/connector-api/protocol'
import { abortLoad, flush, startLoad, tellRelease } from './loads.ts'
import { emptyMemory } from './producer.ts'
import type { Rules } from './rules.ts'
import {
  contentOf,
  pairsOf,
  type ClusterState,
  type ConsumedRequest,
  type ConsumerName,
  type ConsumerState,
  type Handoff,
  type Ranks,
} from './state.ts'

export const createConsumer = (life: number, ranks: Ranks): ConsumerState => ({
  life,
  memory: pairsOf(ranks).map(emptyMemory),
  requests: {},
  connections: {},
})

/** The router brings a handoff; the engine has blocks, and takes what it is offered. */
export function receiveHandoff(
  state: ClusterState,
  rules: Rules,
  name: ConsumerName,
  { job, producer, producerLife, blocks }: Handoff,
): void {
  const request: ConsumedRequest = {
    job,
    producer,
    producerLife,
    loadId: 1,
    remoteBlocks: blocks,
    blocks,
    request: { kind: 'offered' } as ConsumedRequest['request'],
    loads: Array.from({ length: state.ranks.consumer }, () => null),
    reads: pairsOf(state.ranks).map(() => null),
    outbox: [],
    reports: Array.from({ length: state.ranks.consumer }, () => []),
  }
  state.consumers[name]!.requests[job] = request
  const blockIds = [Uint32Array.from(blocks)]
  const event = { kind: 'allocated-for-load', blockIds } as const
  const next = rules.consumer(request.request, event, state.now, undefined)
  request.request = next.state
  for (const effect of next.effects) request.outbox.push(effect.kind)
}

/** The client is gone. */
export function abortRequest(
  state: ClusterState,
  rules: Rules,
  name: ConsumerName,
  job: string,
): void {
  const request = state.consumers[name]!.requests[job]!
  const next = rules.consumer(request.request, { kind: 'finished' }, state.now, undefined)
  request.request = next.state
  for (const effect of next.effects) request.outbox.push(effect.kind)
}

/** One engine step: the scheduler half's words reach the worker half, and the reports come back. */
export function stepConsumerEngine(state: ClusterState, rules: Rules, name: ConsumerName): void {
  for (const request of Object.values(state.consumers[name]!.requests)) {
    const { outbox } = request
    request.outbox = []
    for (const entry of outbox) {
      if (entry === 'load') startLoad(state, rules, name, request)
      else if (entry === 'abort') abortLoad(state, rules, name, request)
      else for (const pair of pairsOf(state.ranks)) tellRelease(state, name, request, pair)
    }
  }
  flush(state, rules, name)
  for (const request of Object.values(state.consumers[name]!.requests)) {
    while (request.reports.every((reports) => reports.length > 0)) {
      receive(state, rules, name, request, outcomeOf(request.reports.map((of) => of.shift()!)))
    }
  }
}

/** As the engine makes one of what its ranks report. */
function outcomeOf(outcomes: readonly LoadOutcome[]): LoadOutcome {
  return outcomes.find(({ kind }) => kind !== 'loaded') ?? outcomes[0]!
}

/** What the engine does with a report: it relies on the bytes, or writes its own into the blocks. */
function receive(
  state: ClusterState,
  rules: Rules,
  name: ConsumerName,
  request: ConsumedRequest,
  outcome: LoadOutcome,
): void {
  const { job, blocks, producerLife } = request
  const consumer = state.consumers[name]!
  request.request = rules.consumer(
    request.request,
    { kind: 'received' },
    state.now,
    undefined,
  ).state
  const isTouched = state.transfers.some((open) => open.consumer === name && open.job === job)
  if (isTouched) state.problem = `S1: ${name} uses ${job}'s blocks while a READ may write into them`
  const wanted = contentOf(job, producerLife)
  const found = consumer.memory.flatMap((memory) => blocks.map((block) => memory[block]!))
  if (outcome.kind === 'loaded' && found.some((content) => content !== wanted)) {
    state.problem = `S2: ${name} relies on ${job} and holds ${found} instead of ${wanted}`
  }
  for (const memory of consumer.memory) for (const block of blocks) memory[block] = 'x'
  delete consumer.requests[job]
}
