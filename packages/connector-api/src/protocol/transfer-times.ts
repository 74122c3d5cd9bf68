/** The measurements of several transfers that make one load. Pure. */
import type { TransferTimes } from '../index.ts'

/** They ran at the same time: the longest of each wait, the sum of what was moved. */
export function combineTimes(times: readonly TransferTimes[]): TransferTimes {
  const most = (of: (one: TransferTimes) => number): number => Math.max(0, ...times.map(of))
  const sum = (of: (one: TransferTimes) => number): number =>
    times.reduce((total, one) => total + of(one), 0)
  return {
    queuedUs: most((one) => one.queuedUs),
    prepareUs: most((one) => one.prepareUs),
    postUs: most((one) => one.postUs),
    wireUs: most((one) => one.wireUs),
    bytes: sum((one) => one.bytes),
    descriptorsBeforeMerge: sum((one) => one.descriptorsBeforeMerge),
    descriptorsAfterMerge: sum((one) => one.descriptorsAfterMerge),
  }
}
