/**
 * Which of several engines that could serve a request gets it. The only place for load balancing: another
 * way is another implementation of `SelectionPolicy`. Pure but for the policies' own counters.
 */
export interface Candidate {
  /** Position in the configuration. */
  readonly index: number
  /** Tokens that this router has sent to the engine and that it still works on, as estimated. */
  readonly outstandingTokens: number
}

export interface SelectionPolicy {
  /** `candidates` are in configuration order and never empty. */
  pick<T extends Candidate>(candidates: readonly T[]): T
}

/**
 * Round robin over the configuration's order, not over the list of the moment: when one engine leaves
 * and comes back, the others' turns don't shift.
 */
export function createRoundRobin(): SelectionPolicy {
  let lastIndex = -1
  return {
    pick(candidates) {
      const next = candidates.find(({ index }) => index > lastIndex) ?? candidates[0]
      if (next === undefined) throw new RangeError('no candidates')
      lastIndex = next.index
      return next
    },
  }
}

/** The engine with the fewest outstanding tokens; equals take turns. Knows this router's requests only. */
export function createLeastLoad(): SelectionPolicy {
  const turns = createRoundRobin()
  return {
    pick(candidates) {
      const least = Math.min(...candidates.map(({ outstandingTokens }) => outstandingTokens))
      return turns.pick(candidates.filter(({ outstandingTokens }) => outstandingTokens === least))
    },
  }
}

export const policies = {
  'round-robin': createRoundRobin,
  'least-load': createLeastLoad,
} as const satisfies Record<string, () => SelectionPolicy>

export type PolicyName = keyof typeof policies
export const policyNames = Object.keys(policies) as readonly PolicyName[]
