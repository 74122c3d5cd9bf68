/**
 * Push with one of its rules broken each, from outside, and the clause that must notice. The first half are
 * the consumer's rules about blocks that a remote engine writes into, the second the producer's about
 * blocks that it reads.
 */
import type {
  ConnectorFactory,
  SideChannel,
  SideChannelHandler,
  TransferAgent,
  TransferCompletion,
  WorkerComponents,
} from '@kvferry/connector-api'
import {
  acceptForgedToken,
  delegate,
  doubleReport,
  freeAtAbort,
  ignoreEpoch,
  keepUndelivered,
  withListener,
  wrapFactory,
  type WrongConnector,
} from '@kvferry/connector-api/conformance'
import { push } from '../../src/index.ts'
import { encodeWithdrawReply, kindOf } from '@kvferry/connector-api/remote-writes'

const withChannel = (change: (channel: SideChannel) => SideChannel): ConnectorFactory =>
  wrapFactory(push, {
    workerComponents: (components) => ({
      ...components,
      sideChannel: change(components.sideChannel),
    }),
  })

const withAgent = (
  change: (agent: TransferAgent, components: WorkerComponents) => TransferAgent,
): ConnectorFactory =>
  wrapFactory(push, {
    workerComponents: (components) => ({
      ...components,
      agent: change(components.agent, components),
    }),
  })

/** What the producer says of itself to a withdrawal goes through `answer`. */
const withWithdrawal = (answer: (handler: SideChannelHandler) => SideChannelHandler) =>
  withChannel((channel) =>
    delegate(channel, {
      handle: (kind, handler) =>
        channel.handle(
          kind,
          kind.startsWith(kindOf('push', 'withdraw', 0)) ? answer(handler) : handler,
        ),
    }),
  )

/** A producer that does not answer writes no more. */
const believeSilence = wrapFactory(push, {
  workerComponents: (components) => ({
    ...components,
    processes: { self: components.processes!.self, hasEnded: () => true },
  }),
})

/** Blocks in the other order are taken as they come. */
const ignoreLayout = wrapFactory(push, {
  worker: (worker) => ({
    registerKvCaches: (caches) => worker.registerKvCaches({ ...caches, layout: 'LBHNC' }),
  }),
})

/** What a dead producer left in slabs is not waited for. To be run with the path `slabs`. */
export const leaveSlabsOfTheDead = withAgent((agent) =>
  delegate(agent, { processEnded: () => Promise.resolve() }),
)

/** A withdrawal is answered at once, whatever its WRITEs do. */
const answerAtOnce = withWithdrawal((handler) => (body, from) => {
  void handler(body, from)
  return encodeWithdrawReply('withdrawn')
})

/** A WRITE is done when it is posted. */
const believeDone = withAgent((agent, { clock }) => {
  const believed = new Set<TransferCompletion['transfer']>()
  let tell: (completion: TransferCompletion) => void = () => undefined
  const heard = withListener(agent, (listener) => {
    tell = (completion) => listener.onCompletions([completion])
    return {
      onCompletions: (completions) =>
        listener.onCompletions(completions.filter(({ transfer }) => !believed.has(transfer))),
    }
  })
  const post: TransferAgent['post'] = (posts, options) => {
    const transfers = agent.post(posts, options)
    for (const transfer of transfers) {
      believed.add(transfer)
      const times = { queuedUs: 0, prepareUs: 0, postUs: 0, wireUs: 0, bytes: 0 }
      const counts = { descriptorsBeforeMerge: 0, descriptorsAfterMerge: 0 }
      clock.after(0.05, () => tell({ transfer, status: 'done', times: { ...times, ...counts } }))
    }
    return transfers
  }
  return { ...heard, post }
})

/** WRITEs start when they are posted, not when their bytes are computed. */
const postBeforeFence = withAgent((agent) => ({
  ...agent,
  post: (posts, options) =>
    agent.post(
      posts.map((post) => {
        const early = { ...post }
        delete early.after
        return early
      }),
      options,
    ),
}))

/** A request's blocks are the engine's as soon as it has ended. */
const freeAtEnd = wrapFactory(push, {
  scheduler: (scheduler) => ({
    requestFinished: (request, blocks) => ({
      ...scheduler.requestFinished(request, blocks),
      delayFree: false,
    }),
  }),
  worker: (worker) => ({
    getTransferResults: (finished) => ({ ...worker.getTransferResults(finished), sent: [] }),
  }),
})

/** A WRITE that failed is as good as one that did not. */
const believeFailed = withAgent((agent) =>
  withListener(agent, (listener) => ({
    onCompletions: (completions) =>
      listener.onCompletions(
        completions.map((completion) =>
          completion.status === 'failed'
            ? { transfer: completion.transfer, status: 'done', times: completion.times }
            : completion,
        ),
      ),
  })),
)

/** The consumer does not tell that it needs nothing. */
const keepSilent = withChannel((channel) =>
  delegate(channel, {
    connect: async (address, options) => {
      const association = await channel.connect(address, options)
      return delegate(association, {
        request: (kind, body, of) =>
          kind.startsWith(kindOf('push', 'release', 0))
            ? new Promise<Uint8Array>(() => undefined)
            : association.request(kind, body, of),
      })
    },
  }),
)

/** What a step computes is handed over when the next one begins. */
const saveLate = wrapFactory(push, {
  worker: (worker) => {
    let save = (): void => undefined
    const catchUp = (): void => {
      const late = save
      save = () => undefined
      late()
    }
    return {
      handlePreemptions(meta) {
        catchUp()
        return worker.handlePreemptions(meta)
      },
      bindConnectorMetadata(meta) {
        catchUp()
        worker.bindConnectorMetadata(meta)
      },
      waitForSave(ready) {
        save = () => worker.waitForSave(ready)
      },
    }
  },
})

/** Preempted blocks are the engine's at once, whatever reads them. */
const preemptAtOnce = wrapFactory(push, {
  worker: (worker) => ({
    async handlePreemptions(meta) {
      void worker.handlePreemptions(meta)
    },
  }),
})

export const ruleMutants: readonly WrongConnector[] = [
  { name: 'free at abort', clause: 'C5.3', factory: freeAtAbort(push) },
  { name: 'believe silence', clause: 'C5.3', factory: believeSilence },
  { name: 'answer a withdrawal at once', clause: 'C5.3', factory: answerAtOnce },
  { name: 'ignore epoch', clause: 'C8.3', factory: ignoreEpoch(push) },
  { name: 'accept forged token', clause: 'C7.4', factory: acceptForgedToken(push) },
  { name: 'double report', clause: 'C2.1', factory: doubleReport(push) },
  { name: 'keep what reached nobody', clause: 'C4.7', factory: keepUndelivered(push) },
  { name: 'free the source at its end', clause: 'C2.1', factory: freeAtEnd },
  { name: 'done when posted', clause: 'C2.1', factory: believeDone },
  { name: 'post before the fence', clause: 'C2.1', factory: postBeforeFence },
  { name: 'a failed WRITE is done', clause: 'C6.1', factory: believeFailed },
  { name: 'ignore the layout', clause: 'C11.20', factory: ignoreLayout },
  { name: 'tell no release', clause: 'C4.5', factory: keepSilent },
  { name: 'save a step late', clause: 'C11.21', factory: saveLate },
  { name: 'preempt at once', clause: 'C2.6', factory: preemptAtOnce },
]
