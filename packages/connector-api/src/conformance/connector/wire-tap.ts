/**
 * Listens on one engine's wires: the notifications that its agent sends, and what it says on the side
 * channel. What was heard can be said again by others. It changes nothing, but for messages of `muted`
 * kinds, which it drops.
 */
import type { Association, SideChannel } from '../../side-channel.ts'
import type { TransferAgent } from '../../transfer-agent.ts'
import type { ClusterEngineOptions } from '../../testing/cluster/cluster.ts'
import { delegate } from './delegate.ts'

export interface HeardMessage {
  readonly kind: string
  readonly body: Uint8Array
}

export class WireTap {
  readonly notifications: Uint8Array[] = []
  readonly messages: HeardMessage[] = []
  readonly muted = new Set<string>()
  readonly #associations = new WeakMap<Association, Association>()

  /** For the engine that is to be heard. */
  get options(): ClusterEngineOptions {
    return {
      wrapAgent: (agent) => this.#agent(agent),
      wrapSideChannel: (sideChannel) => this.#sideChannel(sideChannel),
    }
  }

  #agent(agent: TransferAgent): TransferAgent {
    return {
      ...agent,
      post: (posts, options) => {
        for (const { notification } of posts) {
          if (notification !== undefined) this.notifications.push(notification.slice())
        }
        return agent.post(posts, options)
      },
      notify: (peer, message) => {
        this.notifications.push(message.slice())
        return agent.notify(peer, message)
      },
    }
  }

  #sideChannel(sideChannel: SideChannel): SideChannel {
    return delegate(sideChannel, {
      connect: async (address, options) =>
        this.#association(await sideChannel.connect(address, options)),
      handle: (kind, handler) =>
        sideChannel.handle(kind, (body, from) => handler(body, this.#association(from))),
      onAssociationEnd: (listener) =>
        sideChannel.onAssociationEnd((association) => listener(this.#association(association))),
    })
  }

  /** One wrapper per association: connectors tell them apart by identity. */
  #association(association: Association): Association {
    const known = this.#associations.get(association)
    if (known !== undefined) return known
    const tapped = delegate(association, {
      request: (kind, body, options) => {
        this.messages.push({ kind, body: body.slice() })
        return association.request(kind, body, options)
      },
      send: (kind, body) => {
        this.messages.push({ kind, body: body.slice() })
        if (!this.muted.has(kind)) association.send(kind, body)
      },
    })
    this.#associations.set(association, tapped)
    return tapped
  }
}
