/** Our own implementation of NIXL's C API over memcpy, for machines without NIXL and for faults. */
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

export const fakeLibraryPath = fileURLToPath(
  new URL('../build/fake/libfake_nixl_capi.so', import.meta.url),
)

/** What the fake of a process that has ended has counted, from the file that KVFERRY_FAKE_NIXL_COUNTERS named there. */
export function readCounters(path: string): Readonly<Record<string, number>> {
  const lines = readFileSync(path, 'utf8').trimEnd().split('\n')
  return Object.fromEntries(
    lines.map((line) => {
      const [name = '', value = ''] = line.split(' ')
      return [name, Number(value)]
    }),
  )
}
