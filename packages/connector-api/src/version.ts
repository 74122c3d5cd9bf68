/**
 * Versions on the wire. The history stands beside the constant; a change of meaning needs a new number.
 *
 * WIRE_VERSION (handshake, side-channel frames, notifications, handoff):
 *   1  first form: pull
 */
export const WIRE_VERSION = 1

/** Version of the hooks in connector.ts. Not frozen before it has run inside vLLM (stays 0 until then). */
export const CONTRACT_VERSION = 0
