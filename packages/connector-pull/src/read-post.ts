/**
 * From a load to the agent's post: the READ with its read-done message, and one call for all READs of a
 * turn. When the agent refuses the whole call, each is tried alone, so that one bad load can't fail the
 * others.
 */
import {
  assert,
  type AnyConnectorError,
  type TransferAgent,
  type TransferHandle,
  type TransferPost,
} from '@kvferry/connector-api'
import { asConnectorError } from '@kvferry/connector-api/protocol'
import type { LoadRecord } from './load-record.ts'
import { encodeReadDone } from './notification.ts'
import type { ReadPlan } from './read-plan.ts'

export type PostResult =
  | { readonly kind: 'posted'; readonly transfer: TransferHandle }
  | { readonly kind: 'refused'; readonly error: AnyConnectorError }

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

/** One result per post, in order. Never throws for an operating error. */
export function postAll(
  agent: TransferAgent,
  posts: readonly TransferPost[],
  options: { readonly waitUntilPosted: boolean },
): PostResult[] {
  try {
    return agent.post(posts, options).map((transfer) => ({ kind: 'posted', transfer }))
  } catch (cause) {
    if (posts.length > 1) return posts.flatMap((post) => postAll(agent, [post], options))
    return [
      { kind: 'refused', error: asConnectorError(cause, { operation: 'post', peer: 'agent' }) },
    ]
  }
}
