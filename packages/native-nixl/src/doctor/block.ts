/** What the two processes of the doctor agree on: the block's content and their messages. */
import type { AgentTransports } from '../transports.ts'

export const blockSizeBytes = 65_536
export const blockCount = 2

export type SideName = 'initiator' | 'target'

/** What the parent hands to the initiator: where to find the target. */
export interface SideOrder {
  readonly name: string
  readonly metadata: Uint8Array
  readonly exported: Uint8Array
}

export type SideMessage =
  | ({ readonly kind: 'ready' } & SideOrder)
  | { readonly kind: 'waiting' }
  | {
      readonly kind: 'moved'
      readonly isReadRight: boolean
      readonly readUs: number
      readonly writeUs: number
      readonly transports: AgentTransports
    }
  | { readonly kind: 'arrived'; readonly isRight: boolean }
  | { readonly kind: 'failed'; readonly reason: string }

/** Different at every offset and for each writer, so that a shifted or foreign block is seen. */
function byteAt(offset: number, writer: SideName): number {
  return (offset * 31 + (offset >> 8) * 17 + (writer === 'target' ? 101 : 53)) & 255
}

export function fillBlock(bytes: Uint8Array, block: number, writer: SideName): void {
  for (let offset = 0; offset < blockSizeBytes; offset++) {
    bytes[block * blockSizeBytes + offset] = byteAt(offset, writer)
  }
}

export function isBlockRight(bytes: Uint8Array, block: number, writer: SideName): boolean {
  for (let offset = 0; offset < blockSizeBytes; offset++) {
    if (bytes[block * blockSizeBytes + offset] !== byteAt(offset, writer)) return false
  }
  return true
}
