/** Bounds of the in-memory fabric itself; those of the contract are in limits.ts. */
export const fabricLimits = {
  /** Registered regions of one agent. At 16 bytes each its metadata stays within its limit. */
  regionCountMax: 4_000,
  /** Tables of one agent, local and imported. */
  tableCountMax: 4_096,
  /** Fences of one agent that are not signalled yet. One per engine step is enough. */
  fenceCountMax: 65_536,
  /** Bytes of one allocation. The fabric is for small memory: it lives in the JS heap's shadow. */
  allocationSizeBytesMax: 4_294_967_296,
  /** Copies that one transfer is cut into, each at its own virtual time. */
  copiesPerTransferMax: 4_096,
  /** Wake-ups of one transfer between its first and last byte. */
  wakeUpsPerTransfer: 16,
} as const
