/** Bounds of the host process, with their reasons. The shim has the same ones in `limits.py`. */
export const bridgeLimits = {
  /** One message, either way: the longest prompt's block ids, as text, twice. */
  messageSizeBytesMax: 16_777_216,
  /** Bytes that the shim may leave unread. It reads in every engine step, so it's gone beyond this. */
  backlogSizeBytesMax: 67_108_864,
  /** Memories of one KV cache: vLLM allocates one. */
  memoryCountMax: 64,
  /** Events in one step: a few for each request that vLLM can hold. */
  eventCountMax: 65_536,
  /** How long after its spawn the host waits to be told what to do. */
  startMessageTimeoutMs: 60_000,
  /** Between two steps of its own while the connector waits for one and the engine sends none. */
  idleStepIntervalMs: 20,
  /** How often it looks whether its parent still lives: a forked sibling may hold the socket open. */
  parentCheckIntervalMs: 1_000,
  /** For the agent's open transfers at the end, after the connector's own wait. */
  agentCloseDeadlineMs: 2_000,
} as const
