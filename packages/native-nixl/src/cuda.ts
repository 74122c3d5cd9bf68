/**
 * The CUDA driver, as far as this machine has one: which library it is, which GPUs it sees, how they reach each
 * other. Nothing here starts a context.
 */
import type { AnyConnectorError } from '@kvferry/connector-api'
import type { NativeCudaInfo } from './binding.ts'
import { loadBinding } from './load-binding.ts'
import { asConnectorError, callNative } from './nixl-error.ts'

export interface GpuInfo {
  /** Its number in this process: CUDA_VISIBLE_DEVICES chooses and orders. */
  readonly ordinal: number
  readonly name: string
  /** `GPU-…`, as nvidia-smi prints it. */
  readonly uuid: string
  readonly pciBusId: string
  readonly memoryBytes: number
  /** Compute capability, for example `9.0`. */
  readonly compute: string
}

export interface GpuLink {
  readonly from: number
  readonly to: number
  /** `from` can map the memory of `to`. */
  readonly hasAccess: boolean
  /** As over NVLink; not over PCIe. */
  readonly hasNativeAtomics: boolean
  /** Of the links of this machine, as the driver ranks them; 0 is the best. */
  readonly performanceRank: number
}

export interface CudaInfo {
  /** Version of CUDA that the driver speaks, for example `13.0`. */
  readonly driver: string
  readonly library: string
  readonly gpus: readonly GpuInfo[]
  readonly links: readonly GpuLink[]
}

/** The driver's library: what KVFERRY_CUDA_LIBRARY names, or what the system's loader finds. */
export function cudaLibrary(
  environment: Readonly<Record<string, string | undefined>> = process.env,
): string {
  return environment['KVFERRY_CUDA_LIBRARY'] || 'libcuda.so.1'
}

/**
 * @throws ConnectorError ERR_CUDA_UNAVAILABLE (no driver, too old a one, no GPU), ERR_NIXL_UNAVAILABLE (the addon is
 *   not built).
 */
export function cudaInfo(): CudaInfo {
  const library = cudaLibrary()
  const binding = loadBinding()
  const found = callNative({ operation: 'cudaInfo' }, () => binding.cudaInfo(library))
  return readCudaInfo(found, library)
}

/** Whether GPU memory can be used here: the addon is built, the driver loads and sees a GPU. */
export function isCudaAvailable():
  | { readonly available: true; readonly gpuCount: number }
  | { readonly available: false; readonly error: AnyConnectorError } {
  try {
    return { available: true, gpuCount: cudaInfo().gpus.length }
  } catch (error) {
    return { available: false, error: asConnectorError(error, 'cudaInfo') }
  }
}

/** @throws RangeError unless `device` can be a GPU's number. */
export function assertDevice(device: number): void {
  if (!Number.isSafeInteger(device) || device < 0) {
    throw new RangeError(`device must be the number of a GPU, from 0, not ${device}`)
  }
}

function readCudaInfo(found: NativeCudaInfo, library: string): CudaInfo {
  return {
    driver: `${Math.floor(found.driver / 1_000)}.${(found.driver % 1_000) / 10}`,
    library,
    gpus: found.devices.map((device, ordinal) => ({
      ordinal,
      name: device.name,
      uuid: device.uuid,
      pciBusId: device.pciBusId,
      memoryBytes: device.memoryBytes,
      compute: `${device.computeMajor}.${device.computeMinor}`,
    })),
    links: found.links,
  }
}
