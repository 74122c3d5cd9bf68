/**
 * The five rules whose breach costs most: a block freed under a transfer, a transfer believed to be over
 * because its memory was let go, another life's blocks, a stranger's word, a report too many.
 */
import {
  asIncarnation,
  type Association,
  type Clock,
  type CommonComponents,
  type RequestId,
  type SideChannel,
  type TransferCompletion,
} from '@kvferry/connector-api'
import { delegate, wrapFactory } from '@kvferry/connector-api/conformance'
import { createSeededRandom } from '@kvferry/connector-api/testing'
import { pull } from '../../src/index.ts'
import { nothing, withListener, type WrongConnector } from './wrong-connector.ts'

interface AbortedLoads {
  readonly loading: Set<RequestId>
  readonly aborted: Set<RequestId>
}

/** An aborted request's blocks are given back at once, whatever its READ is doing. */
function freeAtAbort() {
  // By world, whose clock all of its engines share, or have their own of.
  const perClock = new WeakMap<Clock, Map<string, AbortedLoads>>()
  const requestsOf = ({ clock, incarnation }: CommonComponents): AbortedLoads => {
    const perLife = perClock.get(clock) ?? new Map<string, AbortedLoads>()
    perClock.set(clock, perLife)
    const known = perLife.get(incarnation) ?? { loading: new Set(), aborted: new Set() }
    perLife.set(incarnation, known)
    return known
  }
  return wrapFactory(pull, {
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

/** A READ past its deadline is taken to be over once its memory is let go. */
function trustDeregistration() {
  const over = ({ transfer, error }: Extract<TransferCompletion, { status: 'overdue' }>) => {
    const times = {
      queuedUs: 0,
      postUs: 0,
      wireUs: 0,
      descriptorsBeforeMerge: 0,
      descriptorsAfterMerge: 0,
      bytes: 0,
    }
    return { transfer, status: 'failed', error, times } as const
  }
  return wrapFactory(pull, {
    workerComponents: (components) => {
      const believedOver = new Set<TransferCompletion['transfer']>()
      const agent = withListener(components.agent, (listener) => ({
        onCompletions(completions) {
          const heard = completions.filter(({ transfer }) => !believedOver.has(transfer))
          for (const { status, transfer } of heard)
            if (status === 'overdue') believedOver.add(transfer)
          listener.onCompletions(
            heard.map((completion) =>
              completion.status === 'overdue' ? over(completion) : completion,
            ),
          )
        },
      }))
      return { ...components, agent }
    },
  })
}

/** Every life of every engine looks like the same one. */
function ignoreEpoch() {
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
  return wrapFactory(pull, {
    schedulerComponents: anonymous,
    workerComponents: (components) =>
      anonymous({ ...components, sideChannel: withoutLives(components.sideChannel) }),
  })
}

const tokenSizeBytes = 16

/** Whatever token a notification carries, it is taken for the one that was given out. */
function acceptForgedToken() {
  return wrapFactory(pull, {
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

/** What was reported is reported once more in the next step. */
function doubleReport() {
  return wrapFactory(pull, {
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

export const ruleMutants: readonly WrongConnector[] = [
  { name: 'free at abort', clause: 'C5.3', factory: freeAtAbort() },
  { name: 'trust deregistration', clause: 'C6.5', factory: trustDeregistration() },
  { name: 'ignore epoch', clause: 'C8.1', factory: ignoreEpoch() },
  { name: 'accept forged token', clause: 'C7.4', factory: acceptForgedToken() },
  { name: 'double report', clause: 'C2.1', factory: doubleReport() },
]
