/** Xavier with one of its rules broken each, and the clause that must notice. */
import {
  acceptForgedToken,
  doubleReport,
  freeAtAbort,
  ignoreEpoch,
  keepUndelivered,
  wrapFactory,
  type WrongConnector,
} from '@kvferry/connector-api/conformance'
import { chainBlockKeys } from '@kvferry/connector-api'
import { xavier } from '../../src/index.ts'

/** A producer that does not answer writes no more. */
const believeSilence = wrapFactory(xavier, {
  workerComponents: (components) => ({
    ...components,
    processes: { self: components.processes!.self, hasEnded: () => true },
  }),
})

/** A request's blocks are the engine's as soon as it has ended. */
const freeAtEnd = wrapFactory(xavier, {
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

/** All prompts of one length are one prompt. */
const keyByLength = wrapFactory(xavier, {
  scheduler: (scheduler) => ({
    onNewRequest: (request) =>
      scheduler.onNewRequest({
        ...request,
        blockKeysOf: (count) =>
          chainBlockKeys({ model: 'm', layout: '' }, new Uint8Array(count), 4),
      }),
  }),
})

export const ruleMutants: readonly WrongConnector[] = [
  { name: 'free at abort', clause: 'C5.3', factory: freeAtAbort(xavier) },
  { name: 'believe silence', clause: 'C5.3', factory: believeSilence },
  { name: 'ignore epoch', clause: 'C8.3', factory: ignoreEpoch(xavier) },
  { name: 'accept forged token', clause: 'C7.4', factory: acceptForgedToken(xavier) },
  { name: 'double report', clause: 'C2.1', factory: doubleReport(xavier) },
  { name: 'keep what reached nobody', clause: 'C4.7', factory: keepUndelivered(xavier) },
  { name: 'free the source at its end', clause: 'C2.1', factory: freeAtEnd },
  { name: 'free what is being kept', clause: 'C12.2', factory: freeAtEnd },
  { name: 'know prompts by their length', clause: 'C12.1', factory: keyByLength },
]
