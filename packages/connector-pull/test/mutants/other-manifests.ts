/**
 * Pull with another manifest than its own, for the clauses that its own rules out: once as a connector that keeps
 * the other promise, and once as one that says so and goes on as before.
 */
import type { ConnectorCapabilities, ConnectorFactory, RequestId } from '@kvferry/connector-api'
import {
  delegate,
  withListener,
  wrapFactory,
  type WrongConnector,
} from '@kvferry/connector-api/conformance'
import { pull } from '../../src/index.ts'
import { decodeLeaseQuestion, encodeLeaseQuestion, messageKinds } from '../../src/messages.ts'
import { decodeReadDone, encodeReadDone } from '../../src/notification.ts'

type Manifest = Partial<ConnectorCapabilities>

const claiming = (manifest: Manifest, factory: ConnectorFactory = pull): ConnectorFactory => ({
  ...wrapFactory(factory, {}),
  capabilities: { ...pull.capabilities, ...manifest },
})

/** What it doesn't map is a part of the model's name, so engines that differ in it refuse each other. */
function narrowed(manifest: Manifest): ConnectorFactory {
  const { tensorParallel, supportsDifferentBlockSizes, supportsDifferentLayouts } = manifest
  const factory = wrapFactory(pull, {
    worker: (worker, _, { tpSize }) => ({
      registerKvCaches(caches) {
        const parts = [
          caches.model,
          tensorParallel === 'equal' && `tp ${tpSize}`,
          supportsDifferentBlockSizes === false && `${caches.blockTokens} tokens`,
          supportsDifferentLayouts === false && caches.layout,
        ]
        return worker.registerKvCaches({ ...caches, model: parts.filter(Boolean).join(', ') })
      },
    }),
  })
  return claiming(manifest, factory)
}

/** Two loads of one handoff are one reader to the producer, who hears of its end when both have read. */
function readTwice(): ConnectorFactory {
  const both = 0
  const factory = wrapFactory(pull, {
    workerComponents: (components) => {
      const { sideChannel } = components
      const readOnce = new Set<RequestId>()
      const agent = withListener(components.agent, (listener) => ({
        onNotifications(notifications) {
          const ends = notifications.flatMap((notification) => {
            const done = decodeReadDone(notification.message)
            if (!readOnce.delete(done.requestId)) {
              readOnce.add(done.requestId)
              return []
            }
            return [{ ...notification, message: encodeReadDone({ ...done, loadId: both }) }]
          })
          listener.onNotifications(ends)
        },
      }))
      return {
        ...components,
        agent,
        sideChannel: delegate(sideChannel, {
          handle: (kind, handler) =>
            sideChannel.handle(kind, (body, from) => {
              if (kind !== messageKinds.renew) return handler(body, from)
              const question = decodeLeaseQuestion(body, kind, from.peer.engineId)
              return handler(encodeLeaseQuestion({ ...question, loadId: both }), from)
            }),
        }),
      }
    },
  })
  return claiming({ supportsParallelSampling: true }, factory)
}

const equalRanks = { tensorParallel: 'equal' } as const
const equalBlocks = { supportsDifferentBlockSizes: false } as const
const equalLayouts = { supportsDifferentLayouts: false } as const

/** They keep what the clause asks for. */
export const otherManifests: readonly WrongConnector[] = [
  { name: 'other TP sizes are refused', clause: 'C11.3', factory: narrowed(equalRanks) },
  { name: 'other block sizes are refused', clause: 'C11.4', factory: narrowed(equalBlocks) },
  { name: 'a handoff serves two', clause: 'C11.9', factory: readTwice() },
  { name: 'other layouts are refused', clause: 'C11.19', factory: narrowed(equalLayouts) },
]

/** They say so, and don't. */
export const falseManifests: readonly WrongConnector[] = [
  {
    name: 'other TP sizes are mapped all the same',
    clause: 'C11.3',
    factory: claiming(equalRanks),
  },
  {
    name: 'other block sizes are converted all the same',
    clause: 'C11.4',
    factory: claiming(equalBlocks),
  },
  {
    name: 'a handoff serves one alone',
    clause: 'C11.9',
    factory: claiming({ supportsParallelSampling: true }),
  },
  {
    name: 'other layouts are converted all the same',
    clause: 'C11.19',
    factory: claiming(equalLayouts),
  },
]
