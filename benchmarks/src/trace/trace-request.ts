/** One request of a trace in the form that Mooncake published: what was asked when, and which blocks it had. */
export interface TraceRequest {
  /** Milliseconds since the trace began; never falls. */
  readonly timestampMs: number
  /** Tokens. */
  readonly inputLength: number
  readonly outputLength: number
  /** One id for each block of the prompt, in order. Equal ids = equal blocks with equal prefixes. */
  readonly blockIds: Uint32Array
}

/** Tokens of one block in the published traces; the last block of a prompt may have fewer. */
export const traceBlockTokens = 512
