/** Overwrites what must not be read any more, so that whoever reads it is seen. */
import type { KvCacheLayout } from '../../kv-memory.ts'
import { poison } from '../memory-fabric/memory.ts'

export function poisonBlock(caches: KvCacheLayout, block: number): void {
  for (const { memory, offsetBytes, blockStrideBytes, blockSizeBytes } of caches.regions) {
    const start = offsetBytes + block * blockStrideBytes
    memory.bytes!.fill(poison, start, start + blockSizeBytes)
  }
}
