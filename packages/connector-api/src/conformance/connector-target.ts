/**
 * What a connector's package provides so that the suite can judge it: its factory, and what the suite can't
 * guess. Everything else (time, memory, network, engines) belongs to the suite.
 */
import type { ConnectorFactory } from '../connector.ts'
import { limits } from '../limits.ts'
import type { TransferPath } from '../config.ts'

export interface ConnectorTarget {
  readonly factory: ConnectorFactory
  /** Of the connector, on every engine. Default none. */
  readonly options?: Readonly<Record<string, unknown>>
  /** `config.path` of every engine. Default `descriptors`. */
  readonly path?: TransferPath
  /** Instead of `options` where the next turn is tested: what switches it on. */
  readonly nextTurnOptions?: Readonly<Record<string, unknown>>
  /**
   * Kinds of side-channel messages that bring the same news as a notification: held back where a clause
   * wants to see what a notification does by itself.
   */
  readonly newsKinds?: readonly string[]
  /** The lease that these options give. */
  readonly leaseDurationMs?: number
  /** A producer's blocks are free this long after the last sign of a consumer. */
  readonly releaseBoundMs?: number
  /** Every request has ended this long after the last fault is over. */
  readonly outcomeBoundMs?: number
}

export const completeTarget = (target: ConnectorTarget): Required<ConnectorTarget> => {
  const leaseDurationMs = target.leaseDurationMs ?? limits.leaseDurationMs
  return {
    options: {},
    path: 'descriptors',
    nextTurnOptions: target.options ?? {},
    newsKinds: [],
    leaseDurationMs,
    releaseBoundMs: 1.25 * leaseDurationMs,
    outcomeBoundMs: 2 * limits.transferDeadlineMs + 2 * limits.handshakeTimeoutMs,
    ...target,
  }
}
