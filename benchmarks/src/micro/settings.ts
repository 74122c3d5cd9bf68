/**
 * What `micro` measures and the bounds of each measurement, with reasons. Read by the harness and by its
 * child processes: both sides of a comparison must use the same numbers.
 */
const mebibyte = 1_048_576

export const micro = {
  /** One descriptor: a block of 16 tokens of a mid-size model's layer. Never merged (see the layout). */
  descriptorSizeBytes: 65_536,
  sizesBytes: [mebibyte, 16 * mebibyte],
  depths: [1, 4],
  /** Block k of a transfer is block 2k of both regions: the largest case fills half of it. */
  regionSizeBytes: 2 * 4 * 16 * mebibyte,
  pairCount: 200,
  /** Pairs thrown away before each case: page tables and caches settle. */
  warmUpPairCount: 5,
  /** Case of the throughput bar. */
  bar: { sizeBytes: 16 * mebibyte, depth: 4, ratioMin: 0.95 },
  /** A-A spread beyond which a ratio says nothing about the agent. */
  spreadMax: 0.2,
  /**
   * Smaller blocks for the cost of posting, so that copying takes little of the time. Posts come in bursts:
   * the first of each finds the agent asleep and the caches cold, the others find it at work.
   */
  post: {
    descriptorCount: 1_024,
    descriptorSizeBytes: 4_096,
    burstCount: 60,
    burstLength: 10,
    p50UsMax: 30,
  },
  /** The Python bindings need 43 µs for 1,024 descriptors (median), and we shall need no more than a third. */
  python: { warmUpCount: 50, count: 500, ratioMax: 1 / 3 },
  idle: { durationMs: 3_000, shareMax: 0.01 },
  callback: { count: 100, gapMsMax: 60, p99UsMax: 1_000 },
  /**
   * What the router adds: 100 streams of a token each 50 ms, which is 2,000 tokens/s. Streams begin 10 ms
   * apart, so that their beginnings are a load of their own and no burst, and last so long that all run for a
   * second. The A-A spread beyond which the machine is too noisy to say whether a millisecond was added.
   */
  router: {
    streamCount: 100,
    startsApartMs: 10,
    intervalMs: 50,
    tokensPerStream: 40,
    roundCount: 12,
    warmUpRoundCount: 1,
    bar: { p50UsMax: 1_000, spreadUsMax: 500 },
  },
  /**
   * The history's index, by how many blocks it holds. A prompt of 128 blocks has 2,048 tokens; a round looks at
   * so many that their entries are in no cache of the machine.
   */
  history: {
    entryCounts: [10_000, 100_000, 1_000_000],
    blocksPerPrompt: 128,
    promptsPerRound: 100,
    roundCount: 200,
    warmUpRoundCount: 10,
    bars: { usPerBlockMax: 2, growthMax: 8 },
    seed: 1,
  },
  /** Fill pattern of a target's memory: word i holds i times this, mod 2^32. As in native/bare_loop.cc. */
  patternFactor: 0x9e3779b1,
  untouchedByte: 0xa5,
} as const

export const microDeadlines = {
  /** Start of a child to its ready line: NIXL and its memory have to come up, on a busy machine. */
  readyMs: 60_000,
  /** One command of a child. The longest copies 64 MiB a few times a second at worst, or sleeps 6 s. */
  commandMs: 60_000,
  /** End of stdin to the child's own end, then it is killed. */
  stopMs: 5_000,
} as const
