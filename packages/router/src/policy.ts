/**
 * Which of several engines that could serve a request gets it. The only place for load balancing: a
 * load-aware policy is another implementation of `SelectionPolicy`. Pure but for its own counter.
 */
export interface SelectionPolicy {
  /** `candidates` are in configuration order and never empty. */
  pick<T extends { readonly index: number }>(candidates: readonly T[]): T
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
