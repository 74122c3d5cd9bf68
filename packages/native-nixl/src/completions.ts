/** Reads the flat list of ended transfers that the addon hands over, into the contract's completions. */
import type { TransferCompletion, TransferHandle } from '@kvferry/connector-api'
import { transferFields, transferOutcomes, type NativeTransferFailure } from './binding.ts'
import { transferError } from './nixl-error.ts'

export function readCompletions(
  transfers: Float64Array,
  failures: readonly NativeTransferFailure[],
): TransferCompletion[] {
  const completions: TransferCompletion[] = []
  const errors = new Map(
    failures.map(({ index, peer, failure }) => [index, transferError(failure, peer)]),
  )
  for (let at = 0; at < transfers.length; at += transferFields.length) {
    const value = (field: (typeof transferFields)[number]) =>
      transfers[at + transferFields.indexOf(field)]!
    const transfer = value('handle') as TransferHandle
    const status = transferOutcomes[value('outcome')]!
    const error = errors.get(completions.length)!
    if (status === 'overdue') {
      completions.push({ transfer, status, error })
      continue
    }
    const times = {
      queuedUs: value('queuedUs'),
      prepareUs: value('prepareUs'),
      postUs: value('postUs'),
      wireUs: value('wireUs'),
      descriptorsBeforeMerge: value('descriptorsBeforeMerge'),
      descriptorsAfterMerge: value('descriptorsAfterMerge'),
      bytes: value('bytes'),
    }
    completions.push(
      status === 'done' ? { transfer, status, times } : { transfer, status, times, error },
    )
  }
  return completions
}
