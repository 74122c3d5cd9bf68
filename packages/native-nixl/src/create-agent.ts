/**
 * From options to a running agent: find the library, set the process up once, start. Also answers whether
 * NIXL can be used here at all, and what it is.
 */
import {
  ConnectorError,
  resolveIpc,
  resolveSlabs,
  type AnyConnectorError,
  type IpcOptions,
  type SlabOptions,
  type TransferAgent,
} from '@kvferry/connector-api'
import { assertDevice, cudaLibrary } from './cuda.ts'
import { findLibrary } from './library-path.ts'
import { loadBinding } from './load-binding.ts'
import { NixlAgent } from './nixl-agent.ts'
import { asConnectorError, callNative } from './nixl-error.ts'
import { applyEnvironment } from './transports.ts'

export interface CreateNixlAgentOptions {
  /** Unique per incarnation; peers address the agent by it. At most `limits.idSizeBytesMax` bytes. */
  readonly name: string
  /** Default: KVFERRY_NIXL_LIBRARY, then KVFERRY_NIXL_DIR, then where `kvferry-nixl install` puts it. */
  readonly libraryPath?: string | null
  /**
   * Names of NIXL plugins, whichever the library has (LIBFABRIC, …). Of several, a transfer takes the first that
   * the peer has too. Default: UCX.
   */
  readonly backends?: readonly string[]
  /**
   * Variables for UCX and NIXL, for example `UCX_TLS`. Set where the process doesn't have them yet, by
   * the first agent of the process; later agents share its settings.
   */
  readonly env?: Readonly<Record<string, string>>
  /**
   * Number of the GPU whose memory the agent moves, and on which its slabs lie. Default: host memory only. Sets what
   * UCX and NIXL need for it (`gpuVariables`), so the first agent of a process decides.
   */
  readonly device?: number | null
  /** Slabs for the path of that name, `2 × count × sizeBytes` of host or GPU memory. Default: none. */
  readonly slabs?: SlabOptions | null
  /**
   * The path of that name: offers this agent's memory to processes of the same machine, and opens theirs. Needs `device`.
   * Default: none.
   */
  readonly ipc?: IpcOptions | null
  /** Where UCX logs. Default: memory of this process. */
  readonly logFile?: string
}

/** What GPU memory needs of UCX and NIXL; measured, not guessed. */
const gpuVariables = {
  // Else memory that UCX didn't see being allocated counts as the host's.
  UCX_MEMTYPE_CACHE: 'n',
  // A WRITE of many descriptors as one call of the driver: three to five times as fast.
  NIXL_UCX_SGL_ENABLE: '1',
} as const

/**
 * @throws RangeError for the name, the device, slabs or ipc; ConnectorError ERR_KV_UNSUPPORTED (ipc without a GPU), ERR_CUDA_UNAVAILABLE, ERR_CUDA (the GPU); ERR_NIXL_UNAVAILABLE (no addon, no library, not
 *   loadable, or a plugin that doesn't load: the message names the library that is missing), ERR_NIXL
 *   (the library refused).
 */
export async function createNixlAgent(options: CreateNixlAgentOptions): Promise<TransferAgent> {
  if (typeof options.name !== 'string') throw new TypeError('name must be a string')
  const device = options.device ?? null
  if (device !== null) assertDevice(device)
  const ipc = options.ipc ? resolveIpc(options.ipc) : null
  if (ipc !== null && device === null) throw noGpuForIpc()
  const libraryPath = findLibrary(options.libraryPath ?? null)
  const binding = loadBinding()
  const variables = device === null ? {} : gpuVariables
  applyEnvironment(binding, { ...variables, ...options.env }, options.logFile ?? '')
  const agent = new NixlAgent(binding, {
    name: options.name,
    libraryPath,
    backends: options.backends ?? ['UCX'],
    slabs: options.slabs ? resolveSlabs(options.slabs) : null,
    device: device === null ? null : { library: cudaLibrary(), number: device },
    ipcCtaCount: ipc === null ? null : (ipc.ctaCount ?? 0),
  })
  try {
    await agent.whenReady()
  } catch (error) {
    await agent.close()
    throw error
  }
  return agent
}

function noGpuForIpc(): ConnectorError {
  const message =
    'path ipc: kernels move GPU memory, and this agent has none; name its GPU with the option device, or take another path'
  return new ConnectorError('ERR_KV_UNSUPPORTED', message, { capability: 'path ipc' })
}

/** Whether an agent could be made here: the addon is built, the library is found and loads. */
export function isNixlAvailable():
  | { readonly available: true; readonly path: string }
  | { readonly available: false; readonly error: AnyConnectorError } {
  try {
    const path = findLibrary()
    callNative({ operation: 'loadLibrary' }, () => loadBinding().loadLibrary(path))
    return { available: true, path }
  } catch (error) {
    return { available: false, error: asConnectorError(error, 'loadLibrary') }
  }
}
