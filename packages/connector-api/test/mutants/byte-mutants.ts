/** Mutants that move the wrong bytes, or the right ones at the wrong moment. */
import type { TransferAgent, TransferPost, TransferSide } from '../../src/index.ts'
import { mapCompletions, segmentsOf, trackTables } from './mutant.ts'
import type { Layout, Mutant, Segments } from './mutant.ts'

const changePosts = (
  agent: TransferAgent,
  change: (post: TransferPost) => TransferPost,
): TransferAgent => ({
  ...agent,
  post: (posts, options) => agent.post(posts.map(change), options),
})

const without = (post: TransferPost, name: keyof TransferPost): TransferPost =>
  Object.fromEntries(
    Object.entries(post).filter(([key]) => key !== name),
  ) as unknown as TransferPost

function withoutLastByte(side: TransferSide, layouts: readonly Layout[]): Segments {
  const segments = segmentsOf(side, layouts)
  const lengths = segments.lengths.slice()
  lengths[lengths.length - 1]! -= 1
  return { ...segments, lengths }
}

const sorted = (side: TransferSide): TransferSide =>
  'blockIds' in side ? { ...side, blockIds: side.blockIds.slice().sort() } : side

export const byteMutants: readonly Mutant[] = [
  {
    name: 'the last byte is lost',
    clause: 'A4.12',
    wrapAgent(inner) {
      const { agent, layouts } = trackTables(inner)
      return changePosts(agent, (post) => ({
        ...post,
        local: withoutLastByte(post.local, layouts.get(post.local.table)!),
        remote: withoutLastByte(post.remote, layouts.get(post.remote.table)!),
      }))
    },
  },
  {
    name: 'ids are sorted before they are merged',
    clause: 'A4.3',
    wrapAgent: (agent) =>
      changePosts(agent, (post) => ({
        ...post,
        local: sorted(post.local),
        remote: sorted(post.remote),
      })),
  },
  {
    name: 'a gap is copied along with its block',
    clause: 'A4.6',
    wrapAgent(inner) {
      const { agent, layouts } = trackTables(inner)
      const hidden = new Set<number>()
      const visible = mapCompletions(agent, (completion) =>
        hidden.has(completion.transfer) ? [] : [completion],
      )
      return {
        ...visible,
        post(posts, options) {
          const handles = agent.post(posts, options)
          for (const post of posts) {
            const gapOf = (side: TransferSide): Segments | null => {
              const { blockSizeBytes, blockStrideBytes } = layouts.get(side.table)![0]!
              if (blockStrideBytes === blockSizeBytes) return null
              return {
                table: side.table,
                regions: Uint32Array.of(0),
                offsets: Float64Array.of(blockSizeBytes),
                lengths: Float64Array.of(1),
              }
            }
            const local = gapOf(post.local)
            const remote = gapOf(post.remote)
            if (local === null || remote === null) continue
            const { direction, peer } = post
            for (const handle of agent.post([{ direction, peer, local, remote }])) {
              hidden.add(handle)
            }
          }
          return handles
        },
      }
    },
  },
  {
    name: 'regions are taken in reverse order on one side',
    clause: 'A4.7',
    wrapAgent(inner) {
      const { agent, layouts } = trackTables(inner)
      return changePosts(agent, (post) => {
        const segments = segmentsOf(post.remote, layouts.get(post.remote.table)!)
        const order = [...segments.regions.keys()].sort(
          (a, b) => segments.regions[b]! - segments.regions[a]! || a - b,
        )
        const remote = {
          table: segments.table,
          regions: Uint32Array.from(order, (index) => segments.regions[index]!),
          offsets: Float64Array.from(order, (index) => segments.offsets[index]!),
          lengths: Float64Array.from(order, (index) => segments.lengths[index]!),
        }
        return { ...post, remote }
      })
    },
  },
  {
    name: 'fences are ignored',
    clause: 'A7.1',
    wrapAgent: (agent) => changePosts(agent, (post) => without(post, 'after')),
  },
  {
    name: 'a fence can be used once only',
    clause: 'A7.4',
    wrapAgent(agent) {
      const used = new Set<number>()
      return {
        ...agent,
        post: (posts, options) =>
          agent.post(
            posts.map(({ after, ...post }) => {
              if (after === undefined || used.has(after.handle)) return post
              used.add(after.handle)
              return { ...post, after }
            }),
            options,
          ),
      }
    },
  },
  {
    name: 'a post behind its fence has no deadline',
    clause: 'A7.8',
    wrapAgent: (agent) =>
      changePosts(agent, ({ deadlineMs, ...post }) =>
        post.after === undefined && deadlineMs !== undefined ? { ...post, deadlineMs } : post,
      ),
  },
  {
    name: 'a moment said beforehand is now',
    clause: 'A7.9',
    wrapAgent: (agent) => ({ ...agent, signalFence: (fence) => agent.signalFence(fence) }),
  },
  {
    name: 'an event of nobody opens the fence',
    clause: 'A7.10',
    wrapAgent: (agent) => ({
      ...agent,
      signalFence: (fence, signal) =>
        agent.signalFence(fence, signal?.event === undefined ? signal : {}),
    }),
  },
  {
    name: 'the notification overtakes the data',
    clause: 'A6.1',
    wrapAgent: (agent) => ({
      ...agent,
      post(posts, options) {
        for (const { notification, peer } of posts) {
          if (notification !== undefined) void agent.notify(peer, notification)
        }
        return agent.post(
          posts.map((post) => without(post, 'notification')),
          options,
        )
      },
    }),
  },
  {
    name: 'a message ends at its first NUL',
    clause: 'A6.3',
    wrapAgent: (agent) =>
      changePosts(agent, (post) => {
        const end = post.notification?.indexOf(0) ?? -1
        return end < 0 ? post : { ...post, notification: post.notification!.slice(0, end) }
      }),
  },
  {
    name: 'notifications are delivered twice',
    clause: 'A6.2',
    wrapFabric(fabric) {
      fabric.faults.notifications.duplicateChance = 1
      return fabric
    },
  },
  {
    name: 'notifications that nobody expects yet are thrown away',
    clause: 'A6.7',
    wrapAgent(agent) {
      let isExpecting = false
      return {
        ...agent,
        expectNotifications(isExpected) {
          isExpecting = isExpected
          agent.expectNotifications(true)
        },
        setListener: (listener) =>
          agent.setListener({
            onCompletions: (completions) => listener.onCompletions(completions),
            onNotifications(notifications) {
              if (isExpecting) listener.onNotifications(notifications)
            },
            onBroken: (error) => listener.onBroken(error),
          }),
      }
    },
  },
]
