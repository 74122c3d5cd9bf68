/**
 * One call to the agent for all posts of a turn. When the agent refuses the whole call, each post is tried
 * alone, so that one bad transfer can't fail the others. Which path each takes path-chooser.ts says.
 */
import type { AnyConnectorError, TransferAgent, TransferHandle, TransferPost } from '../index.ts'
import { asConnectorError } from './failures.ts'
import type { PathChooser, RoutedPost } from './path-chooser.ts'

export type PostResult =
  | { readonly kind: 'posted'; readonly transfer: TransferHandle }
  | { readonly kind: 'refused'; readonly error: AnyConnectorError }

export interface PostOptions {
  readonly waitUntilPosted: boolean
  readonly paths: PathChooser
}

/** One result per post, in order. Never throws for an operating error. */
export function postAll(
  agent: TransferAgent,
  posts: readonly TransferPost[],
  options: PostOptions,
): PostResult[] {
  return attempt(
    agent,
    posts.map((post) => options.paths.route(post)),
    options,
  )
}

function attempt(
  agent: TransferAgent,
  routed: readonly RoutedPost[],
  options: PostOptions,
): PostResult[] {
  const { waitUntilPosted, paths } = options
  const posts = routed.map(({ post }) => post)
  let transfers: readonly TransferHandle[]
  try {
    transfers = agent.post(posts, { waitUntilPosted })
  } catch (cause) {
    if (routed.length > 1) return routed.flatMap((one) => attempt(agent, [one], options))
    return [
      { kind: 'refused', error: asConnectorError(cause, { operation: 'post', peer: 'agent' }) },
    ]
  }
  return transfers.map((transfer, at) => {
    paths.posted(transfer, routed[at]!)
    return { kind: 'posted', transfer }
  })
}
