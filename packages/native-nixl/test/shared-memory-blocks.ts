/** What the processes of the shared-memory test agree on. */
export interface HostAddress {
  readonly name: string
  readonly metadata: Uint8Array
  readonly exported: Uint8Array
}

export const blockSizeBytes = 16_384
export const blockCount = 16
/** What the client reads, and where it writes the same bytes inverted. */
export const readIds = [1, 3, 4, 15]
export const writtenIds = [0, 2, 5, 6]
