/** Bounds around certificates, with their reasons. */
export const tlsLimits = {
  /** Bytes of one PEM file. A bundle of a hundred CA certificates fits. */
  pemSizeBytesMax: 262_144,
  /** Between two looks at the files. A new certificate is used after at most two of them. */
  lookIntervalMs: 2_000,
  /** Between two complaints about files that can't be used, while they stay so. */
  complaintIntervalMs: 60_000,
  /** A certificate that ends sooner than this is warned of when it is loaded. */
  expiryNoticeMs: 7 * 86_400_000,
} as const
