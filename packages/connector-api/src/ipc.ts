/**
 * The path `ipc`: between GPUs of one machine, also between two processes on one GPU. The initiator maps the peer's memory
 * by the driver's handles (CUDA IPC), which stand in the peer's agent metadata, and a kernel of the initiator's GPU moves
 * the blocks, computing every address from the block ids. The peer's process takes no part.
 *
 * So a transfer is over when the initiator's GPU says so, and only then is the peer told. A mapping outlives its owner: a
 * write to a process that has ended reaches nobody, and ends `failed`. The other way round it is harder: what a process that
 * ended had given its GPU to do may go on for a moment, so `processEnded` of an agent with a GPU waits for that, too.
 */
import type { TransferPath } from './config.ts'
import { ConnectorError } from './errors.ts'
import type { KvMemory } from './kv-memory.ts'
import { limits } from './limits.ts'

export interface IpcOptions {
  /**
   * CTAs of the copying kernels, 1 … `limits.ipcCtaCountMax`: at most as many multiprocessors are taken from others while one
   * runs, and only one runs at a time. null, the default: one CTA for each multiprocessor.
   */
  readonly ctaCount?: number | null
}

/**
 * What an engine's agent is given for the path; null: it has none. With `auto` wherever its KV lies on a GPU: it costs nothing
 * until it is measured, for each peer that it can reach so.
 * @throws ConnectorError ERR_KV_CONFIG for `ipc` where the KV lies in host memory.
 */
export function ipcFor(
  path: TransferPath,
  memory: KvMemory['kind'],
  options: IpcOptions = {},
): IpcOptions | null {
  if (memory === 'cuda') return path === 'ipc' || path === 'auto' ? options : null
  if (path !== 'ipc') return null
  const remedy = 'keep the KV on a GPU (device cuda:N), or use auto, descriptors or slabs'
  const message = `path is ipc, which moves GPU memory, but the KV lies in host memory: ${remedy}`
  throw new ConnectorError('ERR_KV_CONFIG', message, { field: 'path', value: path, remedy })
}

/** @throws RangeError that names the field. */
export function resolveIpc({ ctaCount = null }: IpcOptions): { readonly ctaCount: number | null } {
  const max = limits.ipcCtaCountMax
  if (ctaCount === null || (Number.isInteger(ctaCount) && ctaCount >= 1 && ctaCount <= max)) {
    return { ctaCount }
  }
  throw new RangeError(`ipc.ctaCount: ${ctaCount} is no integer in 1 … ${max}`)
}
