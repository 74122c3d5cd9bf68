/**
 * The clauses of the agent suite, as data: the only place of their ids and sentences. Test titles, the
 * support tables and the docs come from here. Ids are never reused. What a clause does lies in
 * `agent/<group>.ts`, and the compiler checks that each clause has exactly one run.
 */
import type { AgentNeed } from './harness.ts'

export interface AgentClause {
  readonly id: string
  readonly sentence: string
  /** The harness must support all of these. */
  readonly needs?: readonly AgentNeed[]
  /** Gets a fresh world, because it kills or closes what it gets. */
  readonly isIsolated?: true
}

export const agentGroups = {
  A1: 'memory and registration',
  A2: 'metadata and peers',
  A3: 'block tables',
  A4: 'bytes',
  A5: 'completions',
  A6: 'notifications',
  A7: 'fences',
  A8: 'deadlines',
  A9: 'dead peers',
  A10: 'drain and close',
  A11: 'refusals',
} as const

export type AgentGroup = keyof typeof agentGroups

const inline = { needs: ['inline-post'] } as const
const stall = { needs: ['peer-stall'], isIsolated: true } as const
const kill = { needs: ['peer-kill'], isIsolated: true } as const
const isolated = { isIsolated: true } as const

export const agentClauses = [
  { id: 'A1.1', sentence: 'allocated memory is zeroed and of the size asked for' },
  {
    id: 'A1.2',
    sentence: 'a registered region can be deregistered, once; then its handle is stale',
  },
  { id: 'A1.3', sentence: 'a range that is empty, fractional or outside its memory is refused' },
  { id: 'A1.4', sentence: 'freed memory and memory of another maker are refused' },
  { id: 'A1.5', sentence: 'memory with a registered region is not freed: ERR_KV_BUSY' },
  {
    id: 'A1.6',
    sentence: 'freeing detaches every view of the memory and is idempotent',
    needs: ['host-views'],
  },
  { id: 'A1.7', sentence: 'a region that a table uses is not deregistered: ERR_KV_BUSY' },
  { id: 'A1.8', sentence: 'regions may overlap; deregistering one leaves the other usable' },

  { id: 'A2.1', sentence: 'metadata is not empty and fits its limit' },
  { id: 'A2.2', sentence: 'metadata of another name is refused: ERR_KV_PEER_INCOMPATIBLE' },
  { id: 'A2.3', sentence: 'empty, cut or random metadata is refused, and nothing breaks' },
  { id: 'A2.4', sentence: 'metadata over its limit is refused' },
  { id: 'A2.5', sentence: 'a removed peer and its tables are stale; removing again is harmless' },
  { id: 'A2.6', sentence: 'a removed peer can be added again, and transfers work' },
  {
    id: 'A2.7',
    sentence: 'a post to a region registered after the metadata was taken ends failed',
    needs: ['remote-registration'],
  },
  { id: 'A2.8', sentence: 'adding a name again replaces its peer: the older handle is stale' },
  {
    id: 'A2.9',
    sentence: 'a name with an open transfer is not added again: ERR_KV_BUSY until its final status',
  },

  { id: 'A3.1', sentence: 'a table is described as it was declared, also where it was imported' },
  { id: 'A3.2', sentence: 'a declaration outside its region or with impossible sizes is refused' },
  { id: 'A3.3', sentence: 'a table over a stale region is refused' },
  { id: 'A3.4', sentence: 'empty, cut, extended or random exports are refused' },
  { id: 'A3.5', sentence: 'a released table is stale; releasing again is harmless' },
  { id: 'A3.6', sentence: 'a table in use is not released: ERR_KV_BUSY, until the final status' },
  { id: 'A3.7', sentence: 'an empty table and one over the limit of regions are refused' },

  { id: 'A4.1', sentence: 'a read of permuted blocks is exact and touches nothing else' },
  { id: 'A4.2', sentence: 'a write of permuted blocks is exact and touches nothing else' },
  { id: 'A4.3', sentence: 'neighbours on both sides are merged, and only those' },
  { id: 'A4.4', sentence: 'segments of any length and alignment are exact' },
  { id: 'A4.5', sentence: 'sides of different block sizes are paired as streams of bytes' },
  { id: 'A4.6', sentence: 'gaps between blocks are never touched' },
  { id: 'A4.7', sentence: 'blocks of several regions go region by region' },
  { id: 'A4.8', sentence: 'several posts in one call are all performed, with one handle each' },
  { id: 'A4.9', sentence: 'one source block may go to several places' },
  { id: 'A4.10', sentence: 'blocks may be paired with segments, in both directions' },
  { id: 'A4.11', sentence: 'random plans of blocks and segments equal a model, byte by byte' },
  { id: 'A4.12', sentence: 'a transfer of some MiB is exact to its last byte' },

  { id: 'A5.1', sentence: 'no listener is called from inside a method' },
  { id: 'A5.2', sentence: 'each transfer has exactly one final completion' },
  { id: 'A5.3', sentence: 'when a read is reported done, its bytes are there' },
  { id: 'A5.4', sentence: 'when a write is reported done, its bytes are at the peer' },
  { id: 'A5.5', sentence: 'times, bytes and descriptor counts of a completion are sane' },
  { id: 'A5.6', sentence: 'counters tell what happened' },
  { id: 'A5.7', sentence: 'one bad post in a list: none is enqueued' },
  { id: 'A5.8', sentence: 'an empty list of posts is no mistake' },
  { id: 'A5.9', sentence: 'an inline post also completes once, later, in the listener', ...inline },

  { id: 'A6.1', sentence: 'the notification of a write arrives after its last byte' },
  { id: 'A6.2', sentence: 'each notification arrives exactly once, with the name of its sender' },
  { id: 'A6.3', sentence: 'every byte value travels, and the largest message' },
  { id: 'A6.4', sentence: 'a message over the limit is refused' },
  { id: 'A6.5', sentence: 'a message without a transfer arrives' },
  { id: 'A6.6', sentence: 'messages that a peer sends reach the listener, in batches' },
  { id: 'A6.7', sentence: 'messages sent before they are expected arrive once they are' },
  { id: 'A6.8', sentence: 'the notification of a read arrives after the read is complete' },

  { id: 'A7.1', sentence: 'nothing moves and nothing is reported before the fence is signalled' },
  { id: 'A7.2', sentence: 'the bytes that move are those at the signal, not at the post' },
  { id: 'A7.3', sentence: 'a fence signalled beforehand does not hold a post' },
  { id: 'A7.4', sentence: 'one fence may hold many posts; signalling again is harmless' },
  { id: 'A7.5', sentence: 'a post that waits for a fence does not hold later ones' },
  { id: 'A7.6', sentence: 'a fence that was never made is refused' },
  {
    id: 'A7.7',
    sentence:
      'an inline post is not waited for while only the waiting thread could signal its fence',
    ...inline,
  },
  {
    id: 'A7.8',
    sentence: 'a post still behind its fence at its deadline ends failed and never moves',
  },
  {
    id: 'A7.9',
    sentence:
      'a fence whose moment is said beforehand opens then and not before; the earliest counts',
  },
  {
    id: 'A7.10',
    sentence: 'an event that the agent cannot wait for is refused, and the fence stays as it was',
  },

  { id: 'A8.1', sentence: 'a stalled transfer is overdue once, and later ends once', ...stall },
  { id: 'A8.2', sentence: 'what an overdue transfer may touch stays pinned', ...stall },
  { id: 'A8.3', sentence: 'a transfer that ends in time is never overdue' },
  {
    id: 'A8.4',
    sentence: 'removing the peer does not end a transfer: its final status comes later',
    ...stall,
  },

  { id: 'A9.1', sentence: 'a post to a dead peer ends: ERR_KV_TRANSFER_FAILED', ...kill },
  { id: 'A9.2', sentence: 'a transfer whose peer dies has exactly one final completion', ...kill },
  {
    id: 'A9.3',
    sentence: 'other peers are not affected',
    needs: ['peer-kill', 'second-peer'],
    isIsolated: true,
  },
  {
    id: 'A9.4',
    sentence: 'after a death, a new peer can be added and reached',
    needs: ['peer-kill', 'second-peer'],
    isIsolated: true,
  },

  {
    id: 'A10.1',
    sentence: 'drain resolves when the last transfer has ended, at once if none is open',
  },
  { id: 'A10.2', sentence: 'drain rejects at its deadline: ERR_KV_DEADLINE' },
  { id: 'A10.3', sentence: 'closing twice, also at once, is harmless', ...isolated },
  { id: 'A10.4', sentence: 'after close every method is refused: ERR_KV_CLOSED', ...isolated },
  { id: 'A10.5', sentence: 'close waits for open transfers; each is reported first', ...isolated },
  {
    id: 'A10.6',
    sentence: 'close ends at its deadline although a transfer is open, and frees the memory',
    ...isolated,
  },
  { id: 'A10.7', sentence: 'after close nothing is reported and nothing moves', ...isolated },

  { id: 'A11.1', sentence: 'zero lengths are refused' },
  { id: 'A11.2', sentence: 'block ids outside the table are refused' },
  { id: 'A11.3', sentence: 'segments outside the region, fractional or wrapping are refused' },
  { id: 'A11.4', sentence: 'sides of unequal total length are refused' },
  { id: 'A11.5', sentence: 'a post that would write one byte twice is refused' },
  { id: 'A11.6', sentence: 'forms that are no post are refused with TypeError' },
  { id: 'A11.7', sentence: 'a table on the wrong side is refused' },
  { id: 'A11.8', sentence: 'stale, foreign and made-up handles are refused' },
  { id: 'A11.9', sentence: 'more blocks than a post may have are refused' },
  { id: 'A11.10', sentence: 'more transfers than may be open are refused: ERR_KV_LIMIT' },
  { id: 'A11.11', sentence: 'deadlines that are no durations are refused' },
  { id: 'A11.12', sentence: 'a table of another peer is refused', needs: ['second-peer'] },
] as const satisfies readonly AgentClause[]

export type AgentClauseId = (typeof agentClauses)[number]['id']
