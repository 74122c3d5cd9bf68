/**
 * The port over which history copies KV: whole blocks between the engine's caches and the two tiers. Each
 * space numbers its blocks from 0; what a number means in bytes is the implementation's business.
 */
export type BlockSpace = 'engine' | 'device' | 'host'

export interface BlockCopy {
  readonly from: BlockSpace
  readonly to: BlockSpace
  /** As many as `toBlocks`, at least one; block `i` goes to `toBlocks[i]`. None is named twice in `toBlocks`. */
  readonly fromBlocks: Uint32Array
  readonly toBlocks: Uint32Array
  /** Regions (layers) `firstRegion` up to, not including, `endRegion` of each block. */
  readonly firstRegion: number
  readonly endRegion: number
}

export interface BlockCopies {
  /**
   * Off the JS thread. Resolves when the bytes are in place and visible to whoever reads next; rejects when
   * the copy failed. Either way it has ended: nothing of it touches memory any more. A copy that never ends
   * never settles.
   */
  copy(copy: BlockCopy): Promise<void>
  /** Memory that a tier takes now. */
  reservedBytes(tier: 'device' | 'host'): number
  /** Frees the tiers' memory. Only when no copy is running. Idempotent. */
  close(): void
}
