/**
 * The configuration object (`kvferry.yaml`, the same in code and in vLLM's `kv_connector_extra_config`)
 * after validation. `runtime` loads files and validates; this is only the shape and the defaults.
 */
import type { EngineId } from './ids.ts'

export type ConnectorRole = 'producer' | 'consumer' | 'both'
export type LoadFailurePolicy = 'recompute' | 'fail'
export type TransferPath = 'auto' | 'descriptors' | 'slabs' | 'ipc'

export interface TlsFiles {
  readonly ca: string
  readonly cert: string
  readonly key: string
}

export interface SideChannelConfig {
  readonly host: string
  /** 0 = any free port. */
  readonly port: number
  /** Allows a non-loopback address without certificates. */
  readonly insecure: boolean
  readonly tls: TlsFiles | null
}

export interface PeerConfig {
  readonly host: string
  readonly port: number
  readonly engineId: EngineId
}

export interface NixlConfig {
  readonly backends: readonly string[]
  readonly libraryPath: string | null
}

export interface IpcConfig {
  /** As `IpcOptions.ctaCount` (ipc.ts). */
  readonly ctaCount: number | null
}

export interface KvferryConfig {
  /** `pull`, `push`, `xavier`, or the name of a package that exports a ConnectorFactory. */
  readonly connector: string
  readonly role: ConnectorRole
  readonly engineId: EngineId
  readonly loadFailurePolicy: LoadFailurePolicy
  readonly bufferDevice: 'device' | 'host'
  readonly sideChannel: SideChannelConfig
  /** Whom this engine may connect to; null = any loopback peer. */
  readonly peers: readonly PeerConfig[] | null
  readonly path: TransferPath
  readonly nixl: NixlConfig
  /** Of the path `ipc`; absent: its defaults. */
  readonly ipc?: IpcConfig
  /** Of the chosen connector; validated by its factory's `parseOptions`. */
  readonly options: Readonly<Record<string, unknown>>
}
