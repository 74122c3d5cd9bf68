/**
 * When the history's writer waits: while a handoff is being written, or a restore runs. Somebody waits for either,
 * for the writer nobody does; so it makes way, and neither waits for it. Made by producer-worker.ts.
 */
import type { TransferDirections } from '@kvferry/connector-api'

/** `isWriting`: WRITEs of handoffs are open. */
export function busyDirections(isWriting: () => boolean): TransferDirections {
  let restoreCount = 0
  return {
    isBusy: () => restoreCount > 0 || isWriting(),
    async during(direction, work) {
      if (direction === 'send') return work()
      restoreCount += 1
      try {
        return await work()
      } finally {
        restoreCount -= 1
      }
    },
  }
}
