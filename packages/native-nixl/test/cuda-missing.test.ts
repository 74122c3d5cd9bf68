/** A machine without a GPU: everything loads, and whatever needs one says what is missing. */
import { afterEach, describe, expect, test } from 'vitest'
import {
  createDeviceAllocator,
  createHostAllocator,
  createNixlAgent,
  cudaInfo,
  isCudaAvailable,
  lockHostMemory,
} from '../src/index.ts'
import { fakeCudaPath } from './fake-cuda.ts'
import { fakeLibraryPath } from './fake-library.ts'

afterEach(() => {
  process.env['KVFERRY_CUDA_LIBRARY'] = fakeCudaPath
})

describe('without a driver', () => {
  test('each way to GPU memory is refused: ERR_CUDA_UNAVAILABLE, with what to do', async () => {
    process.env['KVFERRY_CUDA_LIBRARY'] = '/nowhere/libcuda.so.1'
    const missing = expect.objectContaining({
      code: 'ERR_CUDA_UNAVAILABLE',
      details: {
        reason: expect.stringContaining('/nowhere/libcuda.so.1'),
        remedy: expect.stringContaining('driver'),
      },
    })
    const memory = createHostAllocator().allocate({ sizeBytes: 4_096 })
    expect(isCudaAvailable()).toEqual({ available: false, error: missing })
    expect(cudaInfo).toThrow(missing)
    expect(() => createDeviceAllocator({ device: 0 })).toThrow(missing)
    expect(() => lockHostMemory(memory, { device: 0 })).toThrow(missing)
    const options = { name: 'gpu-less', libraryPath: fakeLibraryPath, device: 0 }
    await expect(createNixlAgent(options)).rejects.toEqual(missing)
    memory.free()
  })

  test('a library that is no driver is refused by the symbol that it lacks', () => {
    process.env['KVFERRY_CUDA_LIBRARY'] = fakeLibraryPath
    expect(cudaInfo).toThrow(/lacks the symbol cuInit/)
  })
})
