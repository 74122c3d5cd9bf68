/**
 * The order of trials: every configuration once, then every one again (A-B-A-B), so that what changes on the
 * machine with time reaches all of them alike. The first one runs twice each time, for A-A.
 */
export interface TrialsInTurn<T> {
  /** In the order of the configurations. */
  readonly byConfiguration: readonly (readonly T[])[]
  /** The first configuration once more; empty with a single trial. */
  readonly again: readonly T[]
}

/** `name` is `LABEL-TRIAL`, or `LABEL-again-TRIAL`. */
export async function runInTurn<C extends { readonly label: string }, T>(
  configurations: readonly C[],
  trials: number,
  run: (configuration: C, name: string) => Promise<T>,
): Promise<TrialsInTurn<T>> {
  const byConfiguration: T[][] = configurations.map(() => [])
  const again: T[] = []
  const [first] = configurations
  for (let trial = 1; trial <= trials; trial++) {
    for (const [i, configuration] of configurations.entries()) {
      byConfiguration[i]?.push(await run(configuration, `${configuration.label}-${trial}`))
    }
    if (trials > 1 && first) again.push(await run(first, `${first.label}-again-${trial}`))
  }
  return { byConfiguration, again }
}
