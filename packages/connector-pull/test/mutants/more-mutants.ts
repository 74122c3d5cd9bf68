/** Further ways to be wrong, each the business of one clause. */
import type {
  ConnectorFactory,
  FailedLoad,
  KvTransferParams,
  RequestId,
  RequestView,
  TransferAgent,
} from '@kvferry/connector-api'
import {
  keepUndelivered,
  withListener,
  withoutLongTimers,
  wrapFactory,
  type WrongConnector,
} from '@kvferry/connector-api/conformance'
import { pull } from '../../src/index.ts'
import { decodeReadDone } from '../../src/notification.ts'

/** Changes the failures that a worker reports. */
const withFailures = (change: (load: FailedLoad) => readonly FailedLoad[]): ConnectorFactory =>
  wrapFactory(pull, {
    worker: (worker) => ({
      getTransferResults(finished) {
        const output = worker.getTransferResults(finished)
        return { ...output, failed: output.failed.flatMap(change) }
      },
    }),
  })

/** The manifest changes when the first worker is made. */
function changingManifest(): ConnectorFactory {
  let isMade = false
  return {
    ...wrapFactory(pull, {}),
    get capabilities() {
      return { ...pull.capabilities, isProgressive: isMade }
    },
    createWorker(components, rank) {
      isMade = true
      return pull.createWorker(components, rank)
    },
  }
}

const leakedReport = wrapFactory(pull, {
  scheduler: (scheduler) => ({
    // Nobody hears of a request that was aborted: neither does its report come.
    requestFinished: (request, blocks) =>
      request.finishReason === 'aborted'
        ? { delayFree: true, kvTransferParams: null }
        : scheduler.requestFinished(request, blocks),
  }),
})

const lateAcknowledgement = wrapFactory(pull, {
  workerComponents: (components) => {
    const { agent } = components
    const post: typeof agent.post = (posts, options) =>
      agent.post(
        posts.map((post) => {
          const untold = { ...post }
          delete untold.notification
          return untold
        }),
        options,
      )
    return { ...components, agent: { ...agent, post } }
  },
})

const tellsTwice = wrapFactory(pull, {
  scheduler: (scheduler) => {
    let last: Uint8Array | null = null
    return {
      buildConnectorMeta(step) {
        const again = last
        last = again === null ? scheduler.buildConnectorMeta(step) : null
        return again ?? last!
      },
    }
  },
})

const impureMatch = wrapFactory(pull, {
  scheduler: (scheduler) => {
    const asked = new Set<string>()
    return {
      getNumNewMatchedTokens(request: RequestView, computed: number) {
        const isNew = !asked.has(request.requestId)
        asked.add(request.requestId)
        return isNew
          ? scheduler.getNumNewMatchedTokens(request, computed)
          : { tokens: 0, isAsync: false }
      },
    }
  },
})

const throwsAtJunk = wrapFactory(pull, {
  scheduler: (scheduler) => ({
    onNewRequest(request) {
      const port = (request.kvTransferParams as KvTransferParams | null)?.['remote_port']
      if (port !== undefined && typeof port !== 'number') throw new TypeError('remote_port')
      scheduler.onNewRequest(request)
    },
  }),
})

const ignoresFacts = wrapFactory(pull, {
  worker: (worker) => ({
    registerKvCaches: (caches) =>
      worker.registerKvCaches({
        ...caches,
        model: 'any',
        dtype: 'any',
        layout: 'LBHNC',
        kvHeadCount: 1,
        headSize: 4,
      }),
  }),
})

/** Blocks in the other order are taken as they come. */
const ignoresLayout = wrapFactory(pull, {
  worker: (worker) => ({
    registerKvCaches: (caches) => worker.registerKvCaches({ ...caches, layout: 'LBHNC' }),
  }),
})

const leavesAtOnce = wrapFactory(pull, {
  worker: (worker) => ({
    shutdown: async () => {
      void worker.shutdown()
    },
  }),
})

const acceptsAnyOption: ConnectorFactory = {
  ...wrapFactory(pull, {}),
  parseOptions: (options) => ({ ...pull.parseOptions({}), ...options }),
}

const neverExpires = wrapFactory(pull, {
  workerComponents: (components) => ({ ...components, clock: withoutLongTimers(components.clock) }),
})

const reportsTwiceAStep = wrapFactory(pull, {
  worker: (worker) => {
    let last = worker.getTransferResults(new Set())
    return {
      getTransferResults(finished) {
        const output = worker.getTransferResults(finished)
        const isEmpty = output.sent.length + output.received.length === 0
        // The second question of a step is answered like the first.
        const answer = isEmpty ? last : output
        last = isEmpty ? output : answer
        return answer
      },
    }
  },
})

/** A lease is over when the first of its readers is. */
function freesAfterFirstReader(): ConnectorFactory {
  const readOf = new WeakMap<TransferAgent, Set<RequestId>>()
  return wrapFactory(pull, {
    workerComponents: (components) => {
      const read = new Set<RequestId>()
      const agent = withListener(components.agent, (listener) => ({
        onNotifications(notifications) {
          for (const { message } of notifications) read.add(decodeReadDone(message).requestId)
          listener.onNotifications(notifications)
          components.requestStep()
        },
      }))
      readOf.set(agent, read)
      return { ...components, agent }
    },
    worker: (worker, { agent }) => {
      const told = new Set<RequestId>()
      return {
        getTransferResults(finished) {
          const output = worker.getTransferResults(finished)
          const sent = [...output.sent, ...readOf.get(agent)!].filter((id) => !told.has(id))
          for (const id of sent) told.add(id)
          return { ...output, sent: [...new Set(sent)] }
        },
      }
    },
  })
}

/** Whatever prompt a request has, it's taken for the one that its handoff names. */
const believesTheDigest = wrapFactory(pull, {
  scheduler: (scheduler) => {
    const believed = (request: RequestView): RequestView => {
      const named = request.kvTransferParams?.['remote_prompt_digest']
      if (typeof named !== 'string') return request
      return { ...request, promptDigest: Uint8Array.from(Buffer.from(named, 'hex')) }
    }
    return {
      onNewRequest: (request) => scheduler.onNewRequest(believed(request)),
      getNumNewMatchedTokens: (request, computed) =>
        scheduler.getNumNewMatchedTokens(believed(request), computed),
    }
  },
})

export const moreMutants: readonly WrongConnector[] = [
  { name: 'a failed READ is reported as good', clause: 'C6.1', factory: withFailures(() => []) },
  {
    name: 'a failed load names no block',
    clause: 'C6.1',
    factory: withFailures((load) => [{ ...load, blockIds: [new Uint32Array()] }]),
  },
  {
    name: 'a share that failed is reported as good',
    clause: 'C11.16',
    factory: withFailures(() => []),
  },
  {
    name: 'a lease is over with its first reader',
    clause: 'C11.15',
    factory: freesAfterFirstReader(),
  },
  { name: 'the manifest changes', clause: 'C1.1', factory: changingManifest() },
  { name: 'any option is accepted', clause: 'C1.2', factory: acceptsAnyOption },
  { name: 'an aborted request’s report never comes', clause: 'C5.1', factory: leakedReport },
  {
    name: 'the producer is not told that it may free',
    clause: 'C4.3',
    factory: lateAcknowledgement,
  },
  { name: 'no lease expires', clause: 'C4.2', factory: neverExpires },
  { name: 'keep what reached nobody', clause: 'C4.7', factory: keepUndelivered(pull) },
  { name: 'the same metadata is told in two steps', clause: 'C3.2', factory: tellsTwice },
  { name: 'a question is answered once only', clause: 'C3.1', factory: impureMatch },
  { name: 'a second question finds the same reports', clause: 'C3.4', factory: reportsTwiceAStep },
  { name: 'junk in params is thrown at', clause: 'C3.5', factory: throwsAtJunk },
  { name: 'facts are not compared', clause: 'C8.2', factory: ignoresFacts },
  { name: 'the layout is ignored', clause: 'C11.20', factory: ignoresLayout },
  { name: 'any prompt is the right one', clause: 'C8.4', factory: believesTheDigest },
  { name: 'closing does not wait', clause: 'C10.1', factory: leavesAtOnce },
]
