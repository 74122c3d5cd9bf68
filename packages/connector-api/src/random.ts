/** The only source of randomness for protocol code. Production: the system's CSPRNG; simulation: seeded. */
export interface Random {
  /** Uniform in [0, 1). For schedules and jitter, never for tokens. */
  uniform(): number
  /** `count` random bytes, fit for tokens and incarnations. */
  bytes(count: number): Uint8Array
}
