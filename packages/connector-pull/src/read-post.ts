/** From a READ to the agent's post: its two sides, with its read-done message. */
import { assert, type TransferPost } from '@kvferry/connector-api'
import type { ReadRecord } from './load-record.ts'
import { encodeReadDone } from './notification.ts'
import { planRead, type LocalCache } from './read-plan.ts'

/** @throws ConnectorError ERR_KV_LIMIT when it would take too many descriptors. */
export function readPost(
  { load, link }: ReadRecord,
  cache: LocalCache,
  deadlineMs: number,
): TransferPost {
  assert(link !== null, 'a READ is posted before its peer is ready')
  const { order } = load
  const { loadId, handoff } = order
  const { requestId } = handoff.remote
  return {
    direction: 'read',
    peer: link.peer,
    ...planRead(order, cache, link),
    notification: encodeReadDone({ token: link.token, loadId, requestId }),
    deadlineMs,
  }
}
