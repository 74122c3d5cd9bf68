/** What the suite is told of xavier. */
import type { ConnectorTarget } from '@kvferry/connector-api/conformance'
import { xavier } from '../src/index.ts'
import { xavierLimits } from '../src/limits.ts'

const { unclaimedTicketMs, claimedTicketMs } = xavierLimits

export const conformanceTarget: ConnectorTarget = {
  factory: xavier,
  newsKinds: ['xavier.done'],
  leaseDurationMs: unclaimedTicketMs,
  releaseBoundMs: 1.25 * unclaimedTicketMs,
  // A claim that its consumer forgot.
  outcomeBoundMs: 1.1 * claimedTicketMs,
}
