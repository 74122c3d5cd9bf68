/**
 * Every bound of the harness, with its unit and reason. Nothing here grows without one, and every wait
 * has a deadline from here.
 */
export const limits = {
  /** Observations kept beside a distribution in the result file. */
  samplesMax: 1_000,
  /** Requests of one trial: their texts and times are held in memory until the run ends. */
  requestsMax: 100_000,
  /** Requests in flight; the engines' default is fewer. */
  concurrencyMax: 1_024,
  /** Bytes of one answer, streamed or not. The longest text of any preset is far below. */
  responseSizeBytesMax: 4_194_304,
  /** Send to last byte of one request; beyond it the request has failed. */
  requestDeadlineMs: 60_000,
  /** The same in a sweep, whose grid reaches beyond what is carried: queues grow for as long as it sends. */
  sweepRequestDeadlineMs: 600_000,
  /** Runs of a sweep that can't be made before it gives up: the cause is the same for all of them. */
  sweepFailuresInARowMax: 3,
  /** Values of one dimension of a sweep's grid. */
  gridValuesMax: 64,
  /** Repetitions of a grid. */
  iterationsMax: 100,
  /** A server given by URL has to list its model within this; engines load for minutes. */
  urlReadyTimeoutMs: 120_000,
  /** Longest wait in the client's own queue; beyond it the request counts as dropped. */
  clientQueueMsMax: 60_000,
  /** One small GET (statistics, models, readiness). */
  httpTimeoutMs: 30_000,
  /** Bytes of one such answer. */
  httpAnswerSizeBytesMax: 4_194_304,
  /** Start of a child process to its ready line: the addon, NIXL and a KV cache have to come up. */
  childReadyTimeoutMs: 180_000,
  /** A child that was asked to end is killed after this. Longer than an engine's own shutdown. */
  childStopTimeoutMs: 8_000,
  /** A program that says what flags it has. */
  programHelpTimeoutMs: 30_000,
  /** Lines of a child's stderr kept for a failure report. */
  childLogLinesMax: 80,
  /** Characters of one such line. */
  childLogLineCharactersMax: 1_000,
  /** Signals closer together than this are one: launchers pass on what the terminal sends anyway. */
  secondSignalAfterMs: 1_000,
  /** Router start to "P and D are there and match". */
  routerReadyTimeoutMs: 30_000,
  /** Last answer to "all blocks given back". Leases of lost messages may take longer: that is a finding. */
  settleTimeoutMs: 5_000,
  /** Between two looks while waiting for one of the two above. */
  pollIntervalMs: 50,
  /** Slowest requests listed per run. */
  outliersMax: 20,
  /** Reasons listed in a verdict; the rest are counted. */
  failuresMax: 50,
} as const

/** What lies above one of these shares is not a measurement of the protocol any more. */
export const guard = {
  /** Σ max(0, work − modelled) / Σ modelled, per engine. */
  overrunShareMax: 0.05,
  /** CPU time of the harness's own process tree / (wall time × cores). */
  cpuBusyMax: 0.75,
  /**
   * Noise floor that a bar may give way to, as a share of the quantity. A quiet run's medians differ by 3 % from
   * themselves and its tails by 13 to 16 % (`results/gpu-compare-1xh200.json`); and no bar allows more than 10 %
   * by name, so that one which gives way to more would be no bar.
   */
  noiseShareMax: 0.1,
} as const

/** Modelled step time / time, per engine: above it requests queue, and small differences multiply. */
export const utilisationMax = 0.8
