/** What `gpus` measures, and the bars with their reasons. Read by the harness and by its child processes. */
const kib = 1_024
const mib = 1_048_576

export const gpus = {
  /** A KV block of one layer as vLLM has it, up to one of all layers. */
  blockSizesBytes: [4 * kib, 16 * kib, 64 * kib, 256 * kib, 2 * mib],
  /** Of one transfer: a short prompt of a small model, up to a long one of a large model. */
  totalsMib: [1, 4, 16, 64, 256, 1_024],
  directions: ['write', 'read'],
  /** The total of the bars on rates. */
  barTotalMib: 256,
  /** Content and digests go by slots of this size, which divides all blocks. */
  slotBytes: 4 * kib,
  /** K and V of 24 layers apart, blocks of 4 KiB: what vLLM posts for a prompt of 8,000 tokens, and 2 % more. */
  kv: { regionCount: 48, blockBytes: 4 * kib, blocksPerRegion: 1_024, movedBlocks: 512 },
  /** Milliseconds of the rounds of one point, so that slow paths take their time from nobody. */
  pointBudgetMs: 600,
  pairs: { min: 6, max: 40, warmUp: 2 },
  rounds: { min: 5, max: 15 },
  /** Of a path that is so many times slower than the best that it can't be the best. */
  hopeless: { factor: 5, rounds: 2 },
  costRounds: 40,
  tierRounds: 15,
  bars: {
    descriptorsRatioMin: 0.95,
    /** Of an A-A comparison that decides nothing. */
    spreadMax: 0.2,
    oneBlockGigabytesPerSecondMin: 385,
    gigabytesPerSecondMin: { slabs: 300, ipc: 340 },
    autoShareMax: 0.1,
    /** vLLM's engine thread takes 80 to 105 ms for the same. */
    threadUsMax: 500,
    wallUsMax: 2_000,
    tierGigabytesPerSecondMin: 50,
    tierBlockBytes: 64 * kib,
  },
} as const

export const partNames = ['descriptors', 'paths', 'cost', 'tiers'] as const
export type PartName = (typeof partNames)[number]

export const toBytes = (mebibytes: number): number => mebibytes * mib
