/** Questions about a state of the model as a whole: what of it matters, and whether it may be the last. */
import { hasLaterTimer, names } from './producer.ts'
import type { ClusterState, Message } from './state.ts'

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
        return life === message.producerLife && requests[message.job]!.lease !== null
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
    if (open !== undefined) return `V1: ${name} waits for ${open.job} for ever (${open.load?.kind})`
  }
  for (const name of names(state.producers)) {
    const { life, requests } = state.producers[name]!
    if (life > 1) continue
    for (const [job, { request, lease }] of Object.entries(requests)) {
      if (request.kind !== 'ended' || lease !== null) {
        return `V2: ${name} holds ${job} for ever (${request.kind}, ${lease?.kind})`
      }
    }
  }
  return null
}
