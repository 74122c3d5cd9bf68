/**
 * Which handshakes of a consumer run now. A client's params may name any place on this machine, and one that
 * takes a connection and says nothing holds its handshakes for their whole time: so one address has a
 * share of what runs, and of what waits, and others go past it. Pure; the records are the caller's.
 */
import { type AnyConnectorError, type PeerAddress } from '../index.ts'
import { limitExceeded } from './failures.ts'
import { protocolLimits } from './limits.ts'

/** A handshake that has not ended. */
export interface OpenHandshake {
  readonly address: PeerAddress
  readonly isStarted: boolean
}

/** An engine's name is the client's word too: places are told apart by where they are. */
const placeOf = ({ host, port }: PeerAddress): string => JSON.stringify([host, port])

/** Those of `open` that may start, in order of arrival. */
export function handshakesToStart<T extends OpenHandshake>(open: readonly T[]): T[] {
  const { handshakesInFlightMax, handshakesPerAddressMax } = protocolLimits
  const running = new Map<string, number>()
  for (const { address, isStarted } of open) {
    if (isStarted) running.set(placeOf(address), (running.get(placeOf(address)) ?? 0) + 1)
  }
  let free = handshakesInFlightMax - open.filter(({ isStarted }) => isStarted).length
  const due: T[] = []
  for (const one of open) {
    const place = placeOf(one.address)
    const count = running.get(place) ?? 0
    if (one.isStarted || free <= 0 || count >= handshakesPerAddressMax) continue
    running.set(place, count + 1)
    free -= 1
    due.push(one)
  }
  return due
}

/** Why no further handshake with that address may wait, or null. */
export function addressFullError(
  open: readonly OpenHandshake[],
  address: PeerAddress,
): AnyConnectorError | null {
  const max = protocolLimits.handshakesWaitingPerAddressMax
  const place = placeOf(address)
  const count = open.filter((one) => placeOf(one.address) === place).length
  if (count < max) return null
  return limitExceeded('handshakesWaitingPerAddressMax', count + 1, max)
}
