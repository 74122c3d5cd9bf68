/**
 * Keeps cause before effect. A reader can only ask about a request after the engine answered it, and the
 * engine told this host of it before that; but the two arrive on different sockets, and a host that was
 * kept from running finds both at once. So what peers say waits until everything that the engine had
 * written by then is played. Inside one process, where other engines run, the order comes for free.
 */
import { setImmediate } from 'node:timers/promises'
import type { AgentListener, SideChannel, TransferAgent } from '@kvferry/connector-api'

/** What the engine has said so far, and whether it's played. */
export interface EngineWord {
  /** Grows with every byte that was read from the engine. */
  readonly receivedBytes: number
  /** Resolves when all steps that were received are played. */
  played(): Promise<void>
}

/** Resolves when everything that the engine had written before the call is played. Callers keep their order. */
export type AfterEngine = () => Promise<void>

export function createAfterEngine(word: EngineWord): AfterEngine {
  let waiting: Promise<void> | null = null
  const wait = async (): Promise<void> => {
    // Who calls from now on may know of later words, so gets a wait of its own.
    const turn = setImmediate()
    await turn
    waiting = null
    for (;;) {
      // What was written before is readable in this turn of the event loop, and is read within it.
      const { receivedBytes } = word
      await setImmediate()
      if (word.receivedBytes === receivedBytes) break
    }
    await word.played()
  }
  let last: Promise<void> = Promise.resolve()
  return () => {
    if (waiting === null) {
      const before = last
      waiting = Promise.all([wait(), before]).then(() => undefined)
      last = waiting
    }
    return waiting
  }
}

/** The side channel whose handlers run after the engine's word. */
export function orderedSideChannel(channel: SideChannel, afterEngine: AfterEngine): SideChannel {
  return {
    address: channel.address,
    identity: channel.identity,
    handle(kind, handler) {
      channel.handle(kind, async (body, from) => {
        await afterEngine()
        return handler(body, from)
      })
    },
    connect: (address, options) => channel.connect(address, options),
    onAssociationEnd: (listener) => channel.onAssociationEnd(listener),
    close: () => channel.close(),
  }
}

/** Makes the agent deliver notifications after the engine's word; its own completions need not wait. */
export function orderNotifications(agent: TransferAgent, afterEngine: AfterEngine): void {
  const setListener = agent.setListener.bind(agent)
  agent.setListener = (listener: AgentListener) =>
    setListener({
      onCompletions: (completions) => listener.onCompletions(completions),
      onNotifications: (notifications) => {
        void afterEngine().then(() => listener.onNotifications(notifications))
      },
      onBroken: (error) => listener.onBroken(error),
    })
}
