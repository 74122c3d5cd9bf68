/** The rules that the shell adds to the shipped machines, and each of them broken. */
export interface Rules {
  /** A request that is given up is reported at once. */
  readonly freesAtAbort: boolean
  /** A producer that is silent writes no more. */
  readonly believesSilence: boolean
  /** A withdrawal that comes before its registration leaves no trace. */
  readonly forgetsWithdrawals: boolean
  /** A withdrawal is answered before the WRITEs end. */
  readonly answersAtOnce: boolean
  /** The last WRITE tells of all, also while an earlier one is open. */
  readonly tellsEarly: boolean
  /** A lease ends although a WRITE reads the blocks. */
  readonly freesUnderWrite: boolean
  /** A WRITE starts before the forward that computes its bytes has ended. */
  readonly postsBeforeFence: boolean
  /** A load is reported with its first failure. */
  readonly reportsFirstFailure: boolean
  /** Anybody's word that all was written counts. */
  readonly believesStrangers: boolean
  /** A new life of the producer answers for its former one. */
  readonly ignoresLives: boolean
  /** Preempted blocks get new owners while WRITEs read them. */
  readonly preemptsAtOnce: boolean
}

export const shippedRules: Rules = {
  freesAtAbort: false,
  believesSilence: false,
  forgetsWithdrawals: false,
  answersAtOnce: false,
  tellsEarly: false,
  freesUnderWrite: false,
  postsBeforeFence: false,
  reportsFirstFailure: false,
  believesStrangers: false,
  ignoresLives: false,
  preemptsAtOnce: false,
}
