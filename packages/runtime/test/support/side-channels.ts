/**
 * Side channels of several engines in one process, over real loopback TCP. Everything opened through one
 * `createTestNet()` is closed by its `close()`, also when the test failed.
 */
import {
  asEngineId,
  asIncarnation,
  silentLogger,
  type Association,
  type Clock,
  type PeerAddress,
  type SideChannel,
} from '@kvferry/connector-api'
import { createSeededRandom } from '@kvferry/connector-api/testing'
import { createSideChannel, createSystemClock } from '../../src/index.ts'
import type { SideChannelOptions } from '../../src/index.ts'
import { RawPeer } from './raw-peer.ts'
import { createRecordingMetrics, type RecordingMetrics } from './recording-metrics.ts'

export interface TestEngine {
  readonly channel: SideChannel
  readonly metrics: RecordingMetrics
  /** Associations that ended, in order. */
  readonly ended: Association[]
  /** Resolves at the next end. */
  nextEnd(): Promise<Association>
  addressFor(port?: number): PeerAddress
}

export type EngineOptions = Partial<SideChannelOptions> & { readonly incarnation?: string }

export interface TestNet {
  engine(engineId: string, options?: EngineOptions): Promise<TestEngine>
  raw(engine: TestEngine): Promise<RawPeer>
  close(): Promise<void>
}

export const utf8 = (text: string): Uint8Array => new TextEncoder().encode(text)
export const text = (bytes: Uint8Array): string => new TextDecoder().decode(bytes)

export function createTestNet(defaults: { clock?: Clock } = {}): TestNet {
  const channels: SideChannel[] = []
  const rawPeers: RawPeer[] = []

  return {
    async engine(engineId, { incarnation = `${engineId}-1`, ...options } = {}) {
      const metrics = createRecordingMetrics()
      const channel = await createSideChannel({
        config: { host: '127.0.0.1', port: 0, insecure: false, tls: null },
        identity: { engineId: asEngineId(engineId), incarnation: asIncarnation(incarnation) },
        peers: null,
        clock: defaults.clock ?? createSystemClock(),
        random: createSeededRandom(7),
        logger: silentLogger,
        metrics,
        ...options,
      })
      channels.push(channel)
      const ended: Association[] = []
      const waiting: ((association: Association) => void)[] = []
      channel.onAssociationEnd((association) => {
        ended.push(association)
        for (const resolve of waiting.splice(0)) resolve(association)
      })
      return {
        channel,
        metrics,
        ended,
        nextEnd: () => new Promise((resolve) => waiting.push(resolve)),
        addressFor: (port = channel.address.port) => ({
          engineId: asEngineId(engineId),
          host: channel.address.host,
          port,
        }),
      }
    },
    async raw({ channel }) {
      const peer = await RawPeer.connect(channel.address.port)
      rawPeers.push(peer)
      return peer
    },
    async close() {
      for (const peer of rawPeers) peer.destroy()
      await Promise.all(channels.map((channel) => channel.close()))
    },
  }
}
