/** From a load to the agent's post: the READ with its read-done message. */
import { assert, type TransferPost } from '@kvferry/connector-api'
import type { LoadRecord } from './load-record.ts'
import { encodeReadDone } from './notification.ts'
import type { ReadPlan } from './read-plan.ts'

export function readPost(
  { order, loadId, link }: LoadRecord,
  { local, remote }: ReadPlan,
  deadlineMs: number,
): TransferPost {
  assert(link !== null, 'a load is posted before its peer is ready')
  const { requestId } = order.handoff.remote
  return {
    direction: 'read',
    peer: link.peer,
    local,
    remote,
    notification: encodeReadDone({ token: link.token, loadId, requestId }),
    deadlineMs,
  }
}
