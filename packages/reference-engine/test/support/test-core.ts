/** Inline cores for tests: the whole engine core over the memory fabric, spoken to without HTTP. */
import {
  digestTokens,
  silentLogger,
  type Clock,
  type ConnectorFactory,
  type Logger,
} from '@kvferry/connector-api'
import { createMemoryFabric, type MemoryFabric } from '@kvferry/connector-api/testing'
import { createMetrics, createSystemClock, createSystemRandom } from '@kvferry/runtime'
import type { CoreConfig, CoreEvent } from '../../src/core/core-messages.ts'
import type { CorePorts, TransferPorts } from '../../src/core/core-ports.ts'
import { startInlineCore, type InlineCore } from '../../src/core/inline-core.ts'
import { resolveCoreConfig, type EngineSettingOptions } from '../../src/engine-options.ts'

export type EndEvent = Extract<CoreEvent, { kind: 'end' }>

export interface Answer {
  readonly text: string
  readonly end: EndEvent
}

export interface TestCore {
  readonly core: InlineCore
  readonly fabric: MemoryFabric
  run(prompt: string, maxTokens: number, requestId?: string): Promise<Answer>
  /** Resolves when the request's first token is out. */
  untilToken(requestId: string): Promise<void>
  close(): Promise<void>
}

export const createFabric = (): MemoryFabric =>
  createMemoryFabric({ clock: createSystemClock(), random: createSystemRandom() })

export interface TestCoreOptions extends EngineSettingOptions {
  readonly fabric?: MemoryFabric
  readonly factory?: ConnectorFactory
  readonly logger?: Logger
  readonly clock?: Clock
}

interface Watched {
  text: string
  readonly resolve: (answer: Answer) => void
}

/** Small, quick, without modelled waiting; every option can be overridden. */
export async function startTestCore(options: TestCoreOptions = {}): Promise<TestCore> {
  const { clock, factory, fabric = createFabric(), logger = silentLogger, ...settings } = options
  const given = factory === undefined ? settings : { connector: 'test-connector', ...settings }
  const config = resolveCoreConfig(
    { timeScale: 0, numBlocks: 64, blockSize: 4, ...given },
    '0123456789abcdef',
  )
  const core = await startInlineCore(createPorts({ config, fabric, factory, logger, clock }))
  const watched = new Map<string, Watched>()
  const onToken = new Map<string, () => void>()
  core.setListener({
    onEvents(events) {
      for (const event of events) {
        const request = watched.get(event.requestId)
        if (request === undefined) continue
        if (event.kind === 'end') request.resolve({ text: request.text, end: event })
        else {
          request.text += String.fromCharCode(event.token)
          onToken.get(event.requestId)?.()
        }
      }
    },
    onFatal(error) {
      throw error
    },
  })
  let nextId = 0
  return {
    core,
    fabric,
    run(prompt, maxTokens, requestId = `request-${nextId++}`) {
      const promptTokens = new TextEncoder().encode(prompt)
      return new Promise((resolve) => {
        watched.set(requestId, { text: '', resolve })
        core.submit({
          requestId,
          promptTokens,
          promptDigest: digestTokens(promptTokens),
          maxTokens,
          kvTransferParams: { do_remote_prefill: true },
          receivedAtMs: 0,
        })
      })
    },
    untilToken: (requestId) =>
      new Promise((resolve) => {
        onToken.set(requestId, resolve)
      }),
    close: () => core.close({ deadlineMs: 1_000 }),
  }
}

function createPorts(parts: {
  readonly config: CoreConfig
  readonly fabric: MemoryFabric
  readonly factory: ConnectorFactory | undefined
  readonly logger: Logger
  readonly clock: Clock | undefined
}): CorePorts {
  const { config, fabric, factory, logger } = parts
  return {
    config,
    agentKind: 'memory',
    clock: parts.clock ?? createSystemClock(),
    pause: null,
    random: createSystemRandom(),
    logger,
    metrics: createMetrics(),
    allocator: fabric.allocator,
    hostAllocator: fabric.allocator,
    kernels: fabric.kernels,
    transfer: factory === undefined ? null : createTransfer(fabric, factory),
    transports: () => [],
    addressOf: () => null,
  }
}

/** The test connector uses no side channel; one that is used would be a mistake of the test. */
function createTransfer(fabric: MemoryFabric, factory: ConnectorFactory): TransferPorts {
  const unused = (): never => {
    throw new Error('the test connector uses no side channel')
  }
  return {
    factory,
    processes: null,
    agents: [fabric.createAgent('test-agent')],
    sideChannel: {
      address: { host: '127.0.0.1', port: 1 },
      identity: { engineId: 'e' as never, incarnation: 'i' as never },
      handle: unused,
      connect: unused,
      onAssociationEnd: unused,
      close: async () => {},
    },
  }
}

/** Where the slot of `position` lies in the KV memory of layer 0. */
export function slotOffset(core: InlineCore, requestId: string, position: number): number {
  const { caches, table } = core.parts
  const request = table.get(requestId as never)
  const { blockTokens, regions } = caches.layout
  const [region] = regions
  const block = request?.blocks[Math.floor(position / blockTokens)]
  if (region === undefined || block === undefined) throw new Error('no such slot')
  const slotSizeBytes = region.blockSizeBytes / blockTokens
  return (
    region.offsetBytes + block * region.blockStrideBytes + (position % blockTokens) * slotSizeBytes
  )
}
