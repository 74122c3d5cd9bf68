/** What `micro --paths` measures. Read by the harness and by its child processes. */
export const paths = {
  /** From a head slice of one token to a whole layer's block of a large model. */
  blockSizesBytes: [256, 1_024, 4_096, 16_384, 65_536, 262_144],
  /** Of one transfer: a short prompt's KV in a scaled-down model, and a long one's. */
  totalsBytes: [1_048_576, 8_388_608],
  directions: ['write', 'read'],
  roundCount: 20,
  warmUpRoundCount: 2,
  /** Twice the largest transfer: every second block stays as it is. */
  memorySizeBytes: 2 * 8_388_608,
  slabs: { sizeBytes: 1_048_576, count: 4 },
  patternFactor: 0x9e3779b1,
} as const
