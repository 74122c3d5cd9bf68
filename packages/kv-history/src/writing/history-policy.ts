/**
 * Which blocks are worth keeping, and when the host tier gets its copy. Policies are data and one small
 * decision; everything else (order, leases, prefix-closedness, the writer) is the same under all of them.
 */
import type { HistoryPolicyName } from '@kvferry/connector-api'

export interface HistoryPolicy {
  readonly name: HistoryPolicyName
  /** Whether a block that isn't stored may be. */
  isEligible(block: BlockPrecedent): boolean
  /** Whether keys of blocks that aren't stored are remembered (`isSeen`). */
  readonly usesProbation: boolean
  /** `on-eviction`: host memory takes what leaves the device. `at-save`: it takes every block at once, too. */
  readonly hostWrite: 'on-eviction' | 'at-save'
}

export interface BlockPrecedent {
  /** Neither tier has to lose anything for it. */
  readonly hasFreeSlot: boolean
  /** An earlier request had it, recently enough to be remembered. */
  readonly isSeen: boolean
}

export const historyPolicies: Readonly<Record<HistoryPolicyName, HistoryPolicy>> = {
  'observed-reuse': {
    name: 'observed-reuse',
    isEligible: ({ hasFreeSlot, isSeen }) => hasFreeSlot || isSeen,
    usesProbation: true,
    hostWrite: 'on-eviction',
  },
  'copy-on-eviction': {
    name: 'copy-on-eviction',
    isEligible: () => true,
    usesProbation: false,
    hostWrite: 'on-eviction',
  },
  'write-through': {
    name: 'write-through',
    isEligible: () => true,
    usesProbation: false,
    hostWrite: 'at-save',
  },
}
