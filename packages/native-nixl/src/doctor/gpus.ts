/** What the doctor says about GPUs: which there are, and how each reaches the others. Starts nothing on them. */
import { cudaInfo, isCudaAvailable } from '../cuda.ts'
import type { Finding } from './doctor.ts'

/** One for each GPU; none where CUDA can't be used. */
export function findGpus(): Finding[] {
  if (!isCudaAvailable().available) return []
  const { driver, gpus, links } = cudaInfo()
  return gpus.map((gpu) => {
    const memory = `${Math.round(gpu.memoryBytes / 1_073_741_824)} GiB`
    const own = `${gpu.name}, ${memory}, compute ${gpu.compute}, CUDA ${driver}, ${gpu.uuid}`
    const ways = links.filter(({ from }) => from === gpu.ordinal)
    const reach = ways.map(
      ({ to, hasAccess, hasNativeAtomics }) =>
        `GPU ${to} ${hasAccess ? (hasNativeAtomics ? 'directly, with atomics (as NVLink)' : 'directly (as PCIe)') : 'only through the host'}`,
    )
    const isCutOff = ways.some(({ hasAccess }) => !hasAccess)
    return {
      check: `GPU ${gpu.ordinal}`,
      status: isCutOff ? 'degraded' : 'ok',
      detail: reach.length === 0 ? own : `${own}; reaches ${reach.join(', ')}`,
      remedy: isCutOff
        ? 'Transfers between GPUs that can\u2019t reach each other are slow: see "nvidia-smi topo -p2p r", and let containers see both GPUs'
        : null,
      move: null,
    }
  })
}

/** Nothing is wrong with that: host memory needs none. */
export function noGpu(): Finding {
  const cuda = isCudaAvailable()
  const detail = cuda.available ? 'none' : `none: ${cuda.error.message}`
  return { check: 'GPUs', status: 'ok', detail, remedy: null, move: null }
}
