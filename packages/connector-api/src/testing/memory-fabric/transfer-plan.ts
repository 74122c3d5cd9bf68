/**
 * Pairs the two sides of a post into copies and merges neighbours. Pure: pieces in, plan out. Two
 * copies are merged only if they touch on *both* sides and stay in one region there, since a
 * descriptor is one range of registered memory on each.
 */
import type { Pieces } from './block-table.ts'

export interface TransferPlan {
  readonly localAddresses: Float64Array
  readonly remoteAddresses: Float64Array
  readonly lengths: Float64Array
  readonly descriptorsBeforeMerge: number
  readonly descriptorsAfterMerge: number
  readonly bytes: number
}

/** @throws RangeError when two pieces share a byte. */
export function assertDisjoint(pieces: Pieces, where: string): void {
  const { addresses, lengths } = pieces
  let isAscending = true
  for (let index = 1; index < addresses.length && isAscending; index += 1) {
    isAscending = addresses[index - 1]! + lengths[index - 1]! <= addresses[index]!
  }
  if (isAscending) return
  const order = Uint32Array.from(addresses, (_, index) => index)
  order.sort((a, b) => addresses[a]! - addresses[b]!)
  for (let index = 1; index < order.length; index += 1) {
    const before = order[index - 1]!
    if (addresses[before]! + lengths[before]! > addresses[order[index]!]!) {
      throw new RangeError(`${where}: a byte would be written twice`)
    }
  }
}

/** @throws RangeError when the sides differ in total length. */
export function planTransfer(local: Pieces, remote: Pieces): TransferPlan {
  if (local.totalBytes !== remote.totalBytes) {
    throw new RangeError(`sides differ: ${local.totalBytes} and ${remote.totalBytes} bytes`)
  }
  const max = local.lengths.length + remote.lengths.length
  const localAddresses = new Float64Array(max)
  const remoteAddresses = new Float64Array(max)
  const lengths = new Float64Array(max)
  let before = 0
  let after = 0
  let localIndex = 0
  let remoteIndex = 0
  let lastLocalRegion = -1
  let lastRemoteRegion = -1
  let localUsed = 0
  let remoteUsed = 0
  while (localIndex < local.lengths.length) {
    const localAddress = local.addresses[localIndex]! + localUsed
    const remoteAddress = remote.addresses[remoteIndex]! + remoteUsed
    const localRest = local.lengths[localIndex]! - localUsed
    const remoteRest = remote.lengths[remoteIndex]! - remoteUsed
    const length = Math.min(localRest, remoteRest)
    before += 1
    const last = after - 1
    const localRegion = local.regions[localIndex]!
    const remoteRegion = remote.regions[remoteIndex]!
    const touchesLast =
      last >= 0 &&
      localRegion === lastLocalRegion &&
      remoteRegion === lastRemoteRegion &&
      localAddresses[last]! + lengths[last]! === localAddress &&
      remoteAddresses[last]! + lengths[last]! === remoteAddress
    if (touchesLast) {
      lengths[last] = lengths[last]! + length
    } else {
      localAddresses[after] = localAddress
      remoteAddresses[after] = remoteAddress
      lengths[after] = length
      after += 1
      lastLocalRegion = localRegion
      lastRemoteRegion = remoteRegion
    }
    localUsed = length === localRest ? 0 : localUsed + length
    remoteUsed = length === remoteRest ? 0 : remoteUsed + length
    if (localUsed === 0) localIndex += 1
    if (remoteUsed === 0) remoteIndex += 1
  }
  return {
    localAddresses: localAddresses.slice(0, after),
    remoteAddresses: remoteAddresses.slice(0, after),
    lengths: lengths.slice(0, after),
    descriptorsBeforeMerge: before,
    descriptorsAfterMerge: after,
    bytes: local.totalBytes,
  }
}
