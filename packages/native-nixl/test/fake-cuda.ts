/** Our own CUDA driver over host memory, for machines without a GPU. Before anything asks for CUDA: import this first. */
import { fileURLToPath } from 'node:url'

export const fakeCudaPath = fileURLToPath(new URL('../build/fake/libfake_cuda.so', import.meta.url))
process.env['KVFERRY_CUDA_LIBRARY'] = fakeCudaPath
