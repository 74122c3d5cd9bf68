/**
 * One call to the agent for all posts of a turn. When the agent refuses the whole call, each post is tried
 * alone, so that one bad transfer can't fail the others.
 */
import type { AnyConnectorError, TransferAgent, TransferHandle, TransferPost } from '../index.ts'
import { asConnectorError } from './failures.ts'

export type PostResult =
  | { readonly kind: 'posted'; readonly transfer: TransferHandle }
  | { readonly kind: 'refused'; readonly error: AnyConnectorError }

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
