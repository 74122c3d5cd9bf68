/** Questions about a state of the model as a whole: what of it matters, and whether it may be the last. */
import { hasLaterTimer, names } from './producer.ts'
import { producerRankOf, type ClusterState, type Message } from './state.ts'

/** Forgets messages that nobody would act on, and in which order the others were sent. */
export function normalise(state: ClusterState): void {
  const isHeard = (message: Message): boolean => {
    switch (message.kind) {
      case 'question':
      case 'association-end':
        return true
      case 'answer':
      case 'silence':
      case 'completion':
        return state.consumers[message.consumer]!.requests[message.job] !== undefined
      case 'news': {
        const { life, requests } = state.producers[message.producer]!
        const rank = producerRankOf(state.ranks, message.pair)
        return life === message.producerLife && requests[message.job]!.leases[rank]!.state !== null
      }
    }
  }
  state.messages = state.messages.filter(isHeard)
  if (state.messages.length < 2) return
  const texts = state.messages.map((message) => JSON.stringify(message))
  state.messages = texts.sort().map((text) => JSON.parse(text) as Message)
}

export const isTimeWanted = (state: ClusterState): boolean =>
  hasLaterTimer(state) || state.transfers.some(({ isOverdue }) => !isOverdue)

/** When nothing more can happen: everything has come to its end, unless time ran out first. */
export function judgeEnd(state: ClusterState, endMs: number): string | null {
  if (state.now >= endMs && hasLaterTimer(state)) return null
  for (const name of names(state.consumers)) {
    const [open] = Object.values(state.consumers[name]!.requests)
    if (open !== undefined) {
      const kinds = open.reads.map((read) => read?.kind).join()
      return `V1: ${name} waits for ${open.job} for ever (${kinds})`
    }
  }
  for (const name of names(state.producers)) {
    const { life, requests } = state.producers[name]!
    if (life > 1) continue
    for (const [job, { request, leases }] of Object.entries(requests)) {
      if (request.kind !== 'ended' || leases.some((lease) => lease.state !== null)) {
        const kinds = leases.map((lease) => lease.state?.kind).join()
        return `V2: ${name} holds ${job} for ever (${request.kind}, ${kinds})`
      }
    }
  }
  return null
}
