/**
 * Reads a file of which nobody knows yet whether it is the right one: a log or a device passed by mistake
 * ends at the bound, not in memory. Used for configuration and certificates.
 */
import { open } from 'node:fs/promises'

/** More than `sizeBytesMax` bytes are never kept. */
export type BoundedRead =
  | { readonly kind: 'content'; readonly bytes: Uint8Array }
  | { readonly kind: 'too-large'; readonly sizeBytes: number }

/** @throws what the system says: ENOENT, EACCES, EISDIR, … */
export async function readBoundedFile(path: string, sizeBytesMax: number): Promise<BoundedRead> {
  const file = await open(path, 'r')
  try {
    const { size } = await file.stat()
    // One byte more than allowed is asked for, so that a file that grows, or a pipe, is noticed too.
    const buffer = Buffer.alloc(sizeBytesMax + 1)
    let length = 0
    while (length < buffer.length) {
      const { bytesRead } = await file.read(buffer, length, buffer.length - length, null)
      if (bytesRead === 0) break
      length += bytesRead
    }
    if (length > sizeBytesMax) return { kind: 'too-large', sizeBytes: Math.max(size, length) }
    return { kind: 'content', bytes: buffer.subarray(0, length) }
  } finally {
    await file.close()
  }
}
