/**
 * The five rules whose breach costs most: a block freed under a transfer, a transfer believed to be over
 * because its memory was let go, another life's blocks, a stranger's word, a report too many.
 */
import type { TransferCompletion } from '@kvferry/connector-api'
import {
  acceptForgedToken,
  doubleReport,
  freeAtAbort,
  ignoreEpoch,
  withListener,
  wrapFactory,
  type WrongConnector,
} from '@kvferry/connector-api/conformance'
import { pull } from '../../src/index.ts'

/** A READ past its deadline is taken to be over once its memory is let go. */
function trustDeregistration() {
  const over = ({ transfer, error }: Extract<TransferCompletion, { status: 'overdue' }>) => {
    const times = {
      queuedUs: 0,
      prepareUs: 0,
      postUs: 0,
      wireUs: 0,
      descriptorsBeforeMerge: 0,
      descriptorsAfterMerge: 0,
      bytes: 0,
    }
    return { transfer, status: 'failed', error, times } as const
  }
  return wrapFactory(pull, {
    workerComponents: (components) => {
      const believedOver = new Set<TransferCompletion['transfer']>()
      const agent = withListener(components.agent, (listener) => ({
        onCompletions(completions) {
          const heard = completions.filter(({ transfer }) => !believedOver.has(transfer))
          for (const { status, transfer } of heard)
            if (status === 'overdue') believedOver.add(transfer)
          listener.onCompletions(
            heard.map((completion) =>
              completion.status === 'overdue' ? over(completion) : completion,
            ),
          )
        },
      }))
      return { ...components, agent }
    },
  })
}

export const ruleMutants: readonly WrongConnector[] = [
  { name: 'free at abort', clause: 'C5.3', factory: freeAtAbort(pull) },
  { name: 'trust deregistration', clause: 'C6.5', factory: trustDeregistration() },
  { name: 'ignore epoch', clause: 'C8.1', factory: ignoreEpoch(pull) },
  { name: 'accept forged token', clause: 'C7.4', factory: acceptForgedToken(pull) },
  { name: 'double report', clause: 'C2.1', factory: doubleReport(pull) },
]
