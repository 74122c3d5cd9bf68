/**
 * Rules whose breach costs most, each broken in a connector that keeps them: a block freed under a
 * transfer, another life's word, a stranger's, a report too many. From outside, so that any connector will
 * do: its package tests that its suite and its simulation notice.
 */
import type { Clock } from '../../clock.ts'
import type { CommonComponents, ConnectorFactory } from '../../connector.ts'
import { asIncarnation } from '../../ids.ts'
import type { RequestId } from '../../ids.ts'
import type { Association, SideChannel } from '../../side-channel.ts'
import { createSeededRandom } from '../../testing/seeded-random.ts'
import { delegate, wrapFactory } from '../connector/delegate.ts'
import { nothing, withListener } from './wrong-connector.ts'

interface AbortedLoads {
  readonly loading: Set<RequestId>
  readonly aborted: Set<RequestId>
}

/** An aborted request's blocks are given back at once, whatever writes into them. */
export function freeAtAbort(factory: ConnectorFactory): ConnectorFactory {
  // By world, whose clock all of its engines share, or have their own of.
  const perClock = new WeakMap<Clock, Map<string, AbortedLoads>>()
  const requestsOf = ({ clock, incarnation }: CommonComponents): AbortedLoads => {
    const perLife = perClock.get(clock) ?? new Map<string, AbortedLoads>()
    perClock.set(clock, perLife)
    const known = perLife.get(incarnation) ?? { loading: new Set(), aborted: new Set() }
    perLife.set(incarnation, known)
    return known
  }
  return wrapFactory(factory, {
    scheduler(scheduler, components) {
      const { loading, aborted } = requestsOf(components)
      return {
        updateStateAfterAlloc(request, blocks, external) {
          if (external > 0) loading.add(request.requestId)
          scheduler.updateStateAfterAlloc(request, blocks, external)
        },
        requestFinished(request, blocks) {
          if (loading.has(request.requestId)) aborted.add(request.requestId)
          return scheduler.requestFinished(request, blocks)
        },
      }
    },
    worker(worker, components) {
      const { loading, aborted } = requestsOf(components)
      const told = new Set<RequestId>()
      return {
        getTransferResults(finished) {
          const output = worker.getTransferResults(finished)
          for (const id of output.received) loading.delete(id)
          const early = [...aborted].filter((id) => !told.has(id))
          for (const id of early) told.add(id)
          const late = output.received.filter((id) => !told.has(id) || early.includes(id))
          return { ...output, received: [...new Set([...late, ...early])] }
        },
      }
    },
  })
}

/** Every life of every engine looks like the same one. */
export function ignoreEpoch(factory: ConnectorFactory): ConnectorFactory {
  const always = asIncarnation('always')
  const anonymous = <T extends CommonComponents>(components: T): T => ({
    ...components,
    incarnation: always,
    random: createSeededRandom(1),
  })
  const withoutLives = (sideChannel: SideChannel): SideChannel => {
    const known = new WeakMap<Association, Association>()
    const hide = (of: Association): Association => {
      const hidden = known.get(of) ?? delegate(of, { peer: { ...of.peer, incarnation: always } })
      known.set(of, hidden)
      return hidden
    }
    return delegate(sideChannel, {
      connect: async (address, options) => hide(await sideChannel.connect(address, options)),
      handle: (kind, handler) =>
        sideChannel.handle(kind, (body, from) => handler(body, hide(from))),
      onAssociationEnd: (listener) => sideChannel.onAssociationEnd((of) => listener(hide(of))),
    })
  }
  return wrapFactory(factory, {
    schedulerComponents: anonymous,
    workerComponents: (components) =>
      anonymous({ ...components, sideChannel: withoutLives(components.sideChannel) }),
  })
}

const tokenSizeBytes = 16

/** Whatever token a notification carries, it is taken for the one that was given out. */
export function acceptForgedToken(factory: ConnectorFactory): ConnectorFactory {
  return wrapFactory(factory, {
    workerComponents: (components) => {
      let token: Uint8Array | null = null
      const random = {
        uniform: () => components.random.uniform(),
        bytes(count: number) {
          const bytes = components.random.bytes(count)
          if (count === tokenSizeBytes) token = bytes
          return bytes
        },
      }
      const believe = (message: Uint8Array): Uint8Array => {
        const believed = message.slice()
        if (token !== null && believed.length >= tokenSizeBytes) believed.set(token)
        return believed
      }
      const agent = withListener(components.agent, (listener) => ({
        onNotifications: (notifications) =>
          listener.onNotifications(
            notifications.map(({ from, message }) => ({ from, message: believe(message) })),
          ),
      }))
      return { ...components, agent, random }
    },
  })
}

/** Blocks of a handoff that reached nobody are kept like any others. */
export const keepUndelivered = (factory: ConnectorFactory): ConnectorFactory =>
  wrapFactory(factory, { scheduler: () => ({ handoffUndelivered: () => undefined }) })

/** What was reported is reported once more in the next step. */
export function doubleReport(factory: ConnectorFactory): ConnectorFactory {
  return wrapFactory(factory, {
    worker: (worker) => {
      let last = nothing
      return {
        getTransferResults(finished) {
          const output = worker.getTransferResults(finished)
          const received = [...last.received, ...output.received]
          last = output
          return { ...output, received }
        },
      }
    },
  })
}
