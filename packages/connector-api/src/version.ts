/**
 * Versions on the wire. The history stands beside the constant; a change of meaning needs a new number.
 *
 * WIRE_VERSION (handshake, side-channel frames, notifications, handoff):
 *   1  first form: pull
 *   2  pull: signed handoffs with a deadline in the producer's clock and the producer's block size; the
 *      handshake carries the key, the clock, block strides and whether blocks are staged; heartbeats
 *   3  pull: handoffs name the prompt whose KV they hand over, by its digest, and sign that too
 *   4  pull: a rank speaks with every rank of a producer that has some of its heads, so handshakes, questions and
 *      `wired` name the rank that speaks; a handoff may be of another TP size than its reader's
 */
export const WIRE_VERSION = 4

/**
 * Version of the hooks in connector.ts. Frozen: additions raise it, anything else waits for a major version.
 *   1  as proven in the reference engine and inside vLLM (contributing/decisions/0007)
 *   2  requests name their prompt: `promptDigest`, and `digestOf` where answers are handed over (0009)
 *   3  the paths that a connector's transfers may take: `transferPaths` (0011)
 *   4  keys of a request's blocks, and a worker half's answers to its scheduler half: `blockKeysOf`, `matched`,
 *      `keepsHistory` (0013)
 *   5  peers whose blocks have tokens and heads in the other order: `supportsDifferentLayouts`
 *   6  what a connector refuses of a config is known before it is made: `stagesInHostMemory`, `checkConfig`
 *   7  an answer that reached nobody: `handoffUndelivered` (0015)
 */
export const CONTRACT_VERSION = 7
