/**
 * What agents of a run said last, so that a forger has something to go by: who can see the network knows
 * the form of notifications, but not their tokens.
 */
import type { Random } from '../../random.ts'
import type { TransferAgent } from '../../transfer-agent.ts'

const keptCount = 8
const forgedSizeBytes = 16

export class RecentNotifications {
  readonly #messages: Uint8Array[] = []

  /** Listens to what this agent sends. */
  tap(agent: TransferAgent): TransferAgent {
    return {
      ...agent,
      post: (posts, options) => {
        for (const { notification } of posts)
          if (notification !== undefined) this.#keep(notification)
        return agent.post(posts, options)
      },
      notify: (peer, message) => {
        this.#keep(message)
        return agent.notify(peer, message)
      },
    }
  }

  /** Each of them with some bytes that a forger had to guess: the first ones, or others. */
  forge(random: Random): Uint8Array[] {
    return this.#messages.map((message) => {
      const forged = message.slice()
      const isFirst = random.uniform() < 0.5
      const last = Math.max(0, message.length - forgedSizeBytes)
      const at = isFirst ? 0 : Math.floor(random.uniform() * last)
      forged.set(random.bytes(Math.min(forgedSizeBytes, forged.length - at)), at)
      return forged
    })
  }

  #keep(message: Uint8Array): void {
    this.#messages.push(message.slice())
    if (this.#messages.length > keptCount) this.#messages.shift()
  }
}
