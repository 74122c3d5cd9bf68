/** An agent whose posts take one path, unless they name another: how the suite judges each path. */
import type { AgentPath } from '../slabs.ts'
import type { TransferAgent } from '../transfer-agent.ts'
import { delegate } from './connector/delegate.ts'

export function agentOnPath(agent: TransferAgent, path: AgentPath): TransferAgent {
  return delegate(agent, {
    post: (posts, options) =>
      agent.post(Array.isArray(posts) ? posts.map((post) => withPath(post, path)) : posts, options),
  })
}

/** What is no post stays what it is: the agent has to refuse it. */
function withPath<T>(post: T, path: AgentPath): T {
  return typeof post === 'object' && post !== null ? { path, ...post } : post
}
