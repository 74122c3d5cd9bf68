/**
 * The read machine's transitions as data. The runtime check and the test of "every other event is
 * refused" read the same table. Entries that lead only to their own state are late events, ignored.
 */
import type { TransitionTable } from '@kvferry/connector-api/protocol'
import type { ReadEvent, ReadState } from './read-types.ts'

const ignoredAnswers = <S extends ReadState['kind']>(state: S) =>
  ({
    'lease-grant': [state],
    'lease-complete': [state],
    'lease-refuse': [state],
    'lease-silence': [state],
    'peer-fail': [state],
  }) as const

export const readTransitions: TransitionTable<ReadState['kind'], ReadEvent['kind']> = {
  connecting: {
    'peer-ready': ['posting'],
    'peer-ready-staged': ['requesting'],
    'handoff-refuse': ['ended'],
    'peer-fail': ['ended'],
    abort: ['ended'],
  },
  requesting: {
    'lease-grant': ['posting'],
    'lease-complete': ['ended'],
    'lease-refuse': ['ended'],
    'lease-silence': ['ended'],
    'peer-fail': ['ended'],
    abort: ['ended'],
  },
  posting: {
    'handoff-refuse': ['ended'],
    'handoff-accept': ['asked'],
    abort: ['ended'],
  },
  asked: {
    'post-end': ['reading'],
    'post-fail': ['ended'],
    abort: ['ended'],
  },
  reading: {
    'transfer-done': ['ended', 'awaiting-grant', 'checking'],
    'transfer-fail': ['ended'],
    'transfer-overdue': ['overdue'],
    'lease-grant': ['reading'],
    'lease-complete': ['reading'],
    'lease-refuse': ['reading'],
    'lease-silence': ['reading'],
    abort: ['draining'],
    'peer-fail': ['reading'],
  },
  overdue: {
    'transfer-done': ['ended', 'awaiting-grant', 'checking'],
    'transfer-fail': ['ended'],
    'lease-grant': ['overdue'],
    'lease-complete': ['overdue'],
    'lease-refuse': ['overdue'],
    'lease-silence': ['overdue'],
    abort: ['draining-overdue'],
    'peer-fail': ['overdue'],
  },
  draining: {
    'transfer-done': ['ended'],
    'transfer-fail': ['ended'],
    'transfer-overdue': ['draining-overdue'],
    ...ignoredAnswers('draining'),
  },
  'draining-overdue': {
    'transfer-done': ['ended'],
    'transfer-fail': ['ended'],
    ...ignoredAnswers('draining-overdue'),
  },
  'awaiting-grant': {
    'lease-grant': ['ended', 'checking'],
    'lease-complete': ['ended'],
    'lease-refuse': ['ended'],
    'lease-silence': ['checking'],
    abort: ['ended'],
    'peer-fail': ['awaiting-grant'],
  },
  checking: {
    'lease-grant': ['ended'],
    'lease-complete': ['ended'],
    'lease-refuse': ['ended'],
    'lease-silence': ['ended'],
    abort: ['ended'],
    'peer-fail': ['checking'],
  },
  ended: { ...ignoredAnswers('ended'), abort: ['ended'] },
}
