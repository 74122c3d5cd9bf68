/**
 * One call to the agent for all posts of a turn. When the agent refuses the whole call, each post is tried
 * alone, so that one bad transfer can't fail the others. Which path they take is the engine's `config.path`.
 */
import type {
  AnyConnectorError,
  TransferAgent,
  TransferHandle,
  TransferPath,
  TransferPost,
} from '../index.ts'
import { asConnectorError } from './failures.ts'

export type PostResult =
  | { readonly kind: 'posted'; readonly transfer: TransferHandle }
  | { readonly kind: 'refused'; readonly error: AnyConnectorError }

/** One result per post, in order. Never throws for an operating error. */
export function postAll(
  agent: TransferAgent,
  posts: readonly TransferPost[],
  options: { readonly waitUntilPosted: boolean; readonly path: TransferPath },
): PostResult[] {
  const { waitUntilPosted, path } = options
  try {
    const onPath = path === 'slabs' ? posts.map((post) => ({ ...post, path })) : posts
    return agent.post(onPath, { waitUntilPosted }).map((transfer) => ({ kind: 'posted', transfer }))
  } catch (cause) {
    if (posts.length > 1) return posts.flatMap((post) => postAll(agent, [post], options))
    return [
      { kind: 'refused', error: asConnectorError(cause, { operation: 'post', peer: 'agent' }) },
    ]
  }
}
