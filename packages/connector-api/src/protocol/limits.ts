/**
 * The bounds that the protocols of connectors share, beside `limits`; those of one protocol are in its own
 * package. The relations between them are asserted when this module loads.
 */
import { assert, limits } from '../index.ts'

export const protocolLimits = {
  /** Length of a host name or address (RFC 1035). */
  hostSizeBytesMax: 255,
  /** Length of one fact of the handshake (model name, layer name). */
  factSizeBytesMax: 1_024,
  /** Handshakes under way at once; further ones wait within their own time. */
  handshakesInFlightMax: 32,
  /** Of these with one address: eight that take connections and say nothing leave room for no others. */
  handshakesPerAddressMax: 4,
  /** Handshakes with one address that run or wait: one with each TP rank. */
  handshakesWaitingPerAddressMax: 64,
  /** Pause after a failed handshake, before its half is taken off at random. */
  handshakeBackOffMinMs: 200,
  /** The longest pause: a peer that comes back is found again within it. */
  handshakeBackOffMaxMs: 10_000,
  /** However short a lease a producer names, it isn't renewed more often. */
  heartbeatIntervalMsMin: 100,
  /** Ids in one heartbeat. */
  heartbeatIdCountMax: 256,
  /** Bytes of the ids in one heartbeat: far below a frame, so that others are not held up. */
  heartbeatSizeBytesMax: 32_768,
  /** Two machines' clocks run apart by this share at most: twice what a clock may be slewed by. */
  clockDriftMax: 0.001,
  /** Load samples kept between two `getStats`; beyond it the oldest are dropped and counted. */
  loadSampleCountMax: 8_192,
  /** How long a target polls for an initiator that shook hands and never said that it is wired up. */
  wireUpTimeoutMs: 30_000,
  /** How long a closing worker waits for transfers that peers began, or its own. */
  shutdownDrainMs: 5_000,
  /** Bytes of the metadata of one step. What does not fit travels with the next step. */
  metadataSizeBytesMax: 16_777_216,
  /** Entries in the metadata of one step: some for each request. */
  metadataEntryCountMax: 4 * limits.requestCountMax,
  /** TP ranks of one engine. */
  tpSizeMax: 64,
  /** Tokens of one block of a peer. */
  blockTokensMax: 65_536,
  /** Transfers of one number of pieces on each path before `path: auto` decides; odd, for it compares medians. */
  pathTrialCount: 3,
  /** Peers whose costs `path: auto` remembers; the oldest are measured anew. */
  measuredPeerCountMax: limits.peerCountMax,
  /**
   * GB/s by descriptors below which a peer's GPU memory counts as emulated: above the 2 that software reaches, far below the
   * 50 and more of a link between GPUs.
   */
  emulatedGigabytesPerSecondMax: 4,
  /** Transfers of fewer bytes say nothing about that: at the threshold they take less than a thread may be held up. */
  emulationSampleSizeBytesMin: 1_048_576,
  /** What one descriptor costs at most on a link that has its driver: 4 us measured, 10 with a spinning progress thread. */
  descriptorCostUsMax: 10,
  /** A token of an association: 128 bits. */
  tokenSizeBytes: 16,
} as const

assert(
  protocolLimits.handshakesWaitingPerAddressMax >= protocolLimits.tpSizeMax &&
    protocolLimits.handshakesWaitingPerAddressMax < limits.peerCountMax,
  'one address may hold all peers, or not the ranks of one engine',
)
assert(protocolLimits.pathTrialCount % 2 === 1, 'no value is the median of an even number')
assert(
  limits.idSizeBytesMax + 2 <= protocolLimits.heartbeatSizeBytesMax &&
    protocolLimits.heartbeatSizeBytesMax < limits.frameSizeBytesMax,
  'a heartbeat of one id may not fit',
)
