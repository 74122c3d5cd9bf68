/** Our own implementation of NIXL's C API over memcpy, for machines without NIXL and for faults. */
import { fileURLToPath } from 'node:url'

export const fakeLibraryPath = fileURLToPath(
  new URL('../build/fake/libfake_nixl_capi.so', import.meta.url),
)
