/**
 * The clauses of the connector suite, as data: the only place of their ids and sentences. A clause with
 * `needs` applies only to connectors whose manifest says so; that is the only reason to skip one. Ids are
 * never reused. What a clause does lies in `connector/<group>.ts`, and the compiler checks that each clause
 * has exactly one run.
 */
import type { ConnectorCapabilities } from '../capabilities.ts'

/** For each named capability, the values with which the clause applies. */
export type CapabilityNeeds = {
  readonly [Name in keyof ConnectorCapabilities]?: readonly ConnectorCapabilities[Name][]
}

export interface ConnectorClause {
  readonly id: string
  readonly sentence: string
  readonly needs?: CapabilityNeeds
}

export const connectorGroups = {
  C1: 'manifest and life',
  C2: 'the straight path',
  C3: 'hooks',
  C4: 'leases',
  C5: 'aborts',
  C6: 'failures',
  C7: 'messages',
  C8: 'identity',
  C9: 'limits',
  C10: 'closing',
  C11: 'capabilities',
  C12: 'prompts that come back',
} as const

export type ConnectorGroup = keyof typeof connectorGroups

export const connectorClauses = [
  { id: 'C1.1', sentence: 'the manifest is complete and never changes' },
  { id: 'C1.2', sentence: 'an unknown option is refused with a remedy: ERR_KV_CONFIG' },
  { id: 'C1.3', sentence: 'the defaults are valid options, and stay what they are' },
  { id: 'C1.4', sentence: 'a worker half without caches reports nothing, and shuts down' },
  { id: 'C1.5', sentence: 'counters never fall, and each load is sampled at most once' },

  {
    id: 'C2.1',
    sentence: 'prompts of any length arrive byte for byte, and every block comes back',
  },
  { id: 'C2.2', sentence: 'what the consumer has cached is not loaded again' },
  { id: 'C2.3', sentence: 'many requests between many engines, all at once' },
  { id: 'C2.4', sentence: 'one pair of engines may serve each other in both directions' },
  { id: 'C2.5', sentence: 'prompts that are longer than a step arrive whole' },
  { id: 'C2.6', sentence: 'a producer that preempts hands over what it computed in the end' },
  { id: 'C2.7', sentence: 'a consumer without room waits, and nothing is lost meanwhile' },
  { id: 'C2.8', sentence: 'requests without KV transfer are left alone' },
  { id: 'C2.9', sentence: 'blocks that keep their bytes when they come free are as safe' },

  { id: 'C3.1', sentence: 'asking for matched tokens is repeatable and changes nothing' },
  { id: 'C3.2', sentence: 'step metadata drains: nothing is sent twice' },
  { id: 'C3.3', sentence: 'a request is loaded once, also when it is preempted later' },
  { id: 'C3.4', sentence: 'reports drain: a second question in one step finds none' },
  { id: 'C3.5', sentence: 'malformed params give (0, false), never an exception' },
  { id: 'C3.6', sentence: 'reports of ids that it does not know are ignored' },

  { id: 'C4.1', sentence: 'a producer’s blocks live while the lease lives' },
  { id: 'C4.2', sentence: 'nobody comes: the blocks are free one interval after the lease' },
  { id: 'C4.3', sentence: 'the consumer is done: the producer’s blocks are free at once' },
  { id: 'C4.4', sentence: 'a consumer that comes after the lease gets an error, not other bytes' },
  { id: 'C4.5', sentence: 'a consumer that gives up before it has blocks frees the producer’s' },
  { id: 'C4.6', sentence: 'a slow transfer within its lease is good' },
  {
    id: 'C4.7',
    sentence:
      'a handoff that reached nobody: the blocks are free at once, and who comes gets an error',
  },
  { id: 'C4.8', sentence: 'a handoff that was thought lost, and is being used, stays good' },

  { id: 'C5.1', sentence: 'the consumer’s abort at any point leaks nothing' },
  { id: 'C5.2', sentence: 'the producer’s abort at any point leaks nothing' },
  {
    id: 'C5.3',
    sentence: 'an aborted request’s blocks stay out of use while a transfer may write',
  },

  { id: 'C6.1', sentence: 'a failed transfer is reported with its blocks, and computed instead' },
  { id: 'C6.2', sentence: 'under the policy `fail` it ends its request, and leaks nothing' },
  { id: 'C6.3', sentence: 'the producer’s death at any point' },
  { id: 'C6.4', sentence: 'the consumer’s death at any point' },
  { id: 'C6.5', sentence: 'a transfer without end keeps its request waiting, and ends it once' },
  { id: 'C6.6', sentence: 'an agent that breaks fails what comes after' },
  { id: 'C6.7', sentence: 'a lost connection at any point' },
  { id: 'C6.8', sentence: 'a partition at any point' },
  { id: 'C6.9', sentence: 'a process that stops for a while at any point' },
  { id: 'C6.10', sentence: 'too many blocks out of service: further loads are refused' },

  { id: 'C7.1', sentence: 'lost notifications cost time, nothing else' },
  { id: 'C7.2', sentence: 'duplicate notifications are harmless' },
  { id: 'C7.3', sentence: 'late and reordered messages are harmless' },
  { id: 'C7.4', sentence: 'forged notifications do nothing' },
  { id: 'C7.5', sentence: 'notifications of a former life do nothing' },
  {
    id: 'C7.6',
    sentence: 'a stranger who repeats a peer’s messages changes nothing for that peer',
  },
  { id: 'C7.7', sentence: 'mutated messages are refused, and nobody dies of them' },

  { id: 'C8.1', sentence: 'a handoff of the producer’s former life is never loaded' },
  {
    id: 'C8.2',
    sentence: 'engines that differ in a fact refuse each other: ERR_KV_PEER_INCOMPATIBLE',
  },
  { id: 'C8.3', sentence: 'a new life of the consumer hears nothing of its former one' },
  { id: 'C8.4', sentence: 'a handoff is loaded for no other prompt, also one of equal length' },

  { id: 'C9.1', sentence: 'one request past the limit is served without transfer' },
  { id: 'C9.2', sentence: 'an id past the limit is served without transfer' },
  { id: 'C9.3', sentence: 'under overload everything ends, and nothing piles up' },
  { id: 'C9.4', sentence: 'an agent that takes no more posts fails single loads only' },

  { id: 'C10.1', sentence: 'closing waits for transfers in flight' },
  {
    id: 'C10.2',
    sentence: 'closing twice, also at once, is harmless; what comes after is not loaded',
  },
  { id: 'C10.3', sentence: 'the producer’s close at any point' },
  { id: 'C10.4', sentence: 'the consumer’s close at any point' },
  { id: 'C10.5', sentence: 'closing ends although a transfer does not' },

  {
    id: 'C11.1',
    sentence: 'more than one rank is refused: ERR_KV_UNSUPPORTED',
    needs: { tensorParallel: ['single'] },
  },
  {
    id: 'C11.2',
    sentence: 'equal TP sizes: every rank’s share arrives, and every rank reports once',
    needs: { tensorParallel: ['equal', 'mapped'] },
  },
  {
    id: 'C11.3',
    sentence: 'different TP sizes refuse each other',
    needs: { tensorParallel: ['equal'] },
  },
  {
    id: 'C11.4',
    sentence: 'different block sizes refuse each other',
    needs: { supportsDifferentBlockSizes: [false] },
  },
  {
    id: 'C11.5',
    sentence: 'different block sizes are converted, byte for byte',
    needs: { supportsDifferentBlockSizes: [true] },
  },
  {
    id: 'C11.6',
    sentence: 'the consumer keeps nothing for a next turn',
    needs: { isBidirectional: [false] },
  },
  {
    id: 'C11.7',
    sentence: 'the next turn’s prefill loads what the consumer kept',
    needs: { isBidirectional: [true] },
  },
  {
    id: 'C11.8',
    sentence: 'a handoff used twice: one outcome for each, and right bytes',
    needs: { supportsParallelSampling: [false] },
  },
  {
    id: 'C11.9',
    sentence: 'a handoff used twice: both are loaded',
    needs: { supportsParallelSampling: [true] },
  },
  {
    id: 'C11.10',
    sentence: 'no transfer touches a producer’s blocks before its prefill has ended',
    needs: { isProgressive: [false] },
  },
  {
    id: 'C11.11',
    sentence: 'the consumer may come long before the producer',
    needs: { dispatch: ['concurrent'] },
  },
  {
    id: 'C11.12',
    sentence: 'requests of several KV groups are not handed over',
    needs: { groupCountMax: [1] },
  },
  {
    id: 'C11.13',
    sentence: 'staging in host memory works; without the capability: ERR_KV_UNSUPPORTED',
  },
  {
    id: 'C11.14',
    sentence:
      'different TP sizes: every head arrives byte for byte, whatever the layout and the blocks',
    needs: { tensorParallel: ['mapped'] },
  },
  {
    id: 'C11.15',
    sentence: 'different TP sizes: a load waits for the last of its shares',
    needs: { tensorParallel: ['mapped'] },
  },
  {
    id: 'C11.16',
    sentence: 'different TP sizes: one share fails, and the load fails once, with all its blocks',
    needs: { tensorParallel: ['mapped'] },
  },
  {
    id: 'C11.17',
    sentence: 'different TP sizes: either engine’s death at any point',
    needs: { tensorParallel: ['mapped'] },
  },
  {
    id: 'C11.18',
    sentence: 'TP sizes that can’t be mapped, or aren’t true, are refused and named',
    needs: { tensorParallel: ['mapped'] },
  },
  {
    id: 'C11.19',
    sentence: 'different orders of tokens and heads refuse each other',
    needs: { supportsDifferentLayouts: [false] },
  },
  {
    id: 'C11.20',
    sentence: 'different orders of tokens and heads are converted, byte for byte',
    needs: { supportsDifferentLayouts: [true] },
  },
  {
    id: 'C11.21',
    sentence:
      'a consumer that has come is served from the step that computes its KV, not from a later one',
    needs: { dispatch: ['concurrent'] },
  },

  {
    id: 'C12.1',
    sentence: 'a prompt that comes back is restored byte for byte, and handed over like any other',
    needs: { keepsHistory: [true] },
  },
  {
    id: 'C12.2',
    sentence: 'blocks that the history copies stay the request’s until it has',
    needs: { keepsHistory: [true] },
  },
  {
    id: 'C12.3',
    sentence: 'the abort of a returning prompt at any point leaks no block and no reservation',
    needs: { keepsHistory: [true] },
  },
  {
    id: 'C12.4',
    sentence: 'what can’t be restored is computed, and fails nobody',
    needs: { keepsHistory: [true] },
  },
  {
    id: 'C12.5',
    sentence: 'the producer’s close at any point of a restore leaves no reservation',
    needs: { keepsHistory: [true] },
  },
] as const satisfies readonly ConnectorClause[]

export type ConnectorClauseId = (typeof connectorClauses)[number]['id']
