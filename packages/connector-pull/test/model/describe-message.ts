/** A message of the model as part of a transcript's line. */
import type { Message } from './state.ts'

export function describeMessage(message: Message): string {
  return 'pair' in message && message.pair > 0
    ? `${textOf(message)} (${message.pair})`
    : textOf(message)
}

function textOf(message: Message): string {
  switch (message.kind) {
    case 'question':
      return `${message.consumer} asks ${message.producer} for the lease of ${message.job}`
    case 'answer':
      return `${message.producer} answers ${message.consumer}: ${message.job} is ${message.answer.kind}`
    case 'silence':
      return `nothing, for ${message.consumer}'s question about ${message.job}`
    case 'news':
      return `${message.event.kind} of ${message.job} from ${message.event.reader.incarnation}`
    case 'completion':
      return `${message.consumer}'s READ of ${message.job} ended ${message.isDone ? 'done' : 'failed'}`
    case 'association-end':
      return `${message.consumer} hears that ${message.key} is gone`
  }
}
