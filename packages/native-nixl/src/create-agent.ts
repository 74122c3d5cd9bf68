/**
 * From options to a running agent: find the library, set the process up once, start. Also answers whether
 * NIXL can be used here at all, and what it is.
 */
import {
  resolveSlabs,
  type AnyConnectorError,
  type SlabOptions,
  type TransferAgent,
} from '@kvferry/connector-api'
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
  /** Names of NIXL plugins, whichever the library has (LIBFABRIC, …). Default: UCX. */
  readonly backends?: readonly string[]
  /**
   * Variables for UCX and NIXL, for example `UCX_TLS`. Set where the process doesn't have them yet, by
   * the first agent of the process; later agents share its settings.
   */
  readonly env?: Readonly<Record<string, string>>
  /** Slabs for the path of that name, `2 × count × sizeBytes` of host memory. Default: none. */
  readonly slabs?: SlabOptions | null
  /** Where UCX logs. Default: memory of this process. */
  readonly logFile?: string
}

/**
 * @throws RangeError for the name; ConnectorError ERR_NIXL_UNAVAILABLE (no addon, no library, not
 *   loadable, or a plugin that doesn't load: the message names the library that is missing), ERR_NIXL
 *   (the library refused).
 */
export async function createNixlAgent(options: CreateNixlAgentOptions): Promise<TransferAgent> {
  if (typeof options.name !== 'string') throw new TypeError('name must be a string')
  const libraryPath = findLibrary(options.libraryPath ?? null)
  const binding = loadBinding()
  applyEnvironment(binding, options.env ?? {}, options.logFile ?? '')
  const agent = new NixlAgent(binding, {
    name: options.name,
    libraryPath,
    backends: options.backends ?? ['UCX'],
    slabs: options.slabs ? resolveSlabs(options.slabs) : null,
  })
  try {
    await agent.whenReady()
  } catch (error) {
    await agent.close()
    throw error
  }
  return agent
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
