/**
 * Memory that transfers may touch, and the kernels over it. Both are opaque to connectors: a connector
 * registers regions and names blocks; only agents and kernels see bytes. JS never holds an address.
 */

/** One allocation. Which agent can register it depends on who made it (`native-nixl`, or the memory agent). */
export interface KvMemory {
  readonly kind: 'host' | 'cuda'
  readonly sizeBytes: number
  /** Host memory only: a view for tests and tools. Detached (length 0) once the memory is freed. */
  readonly bytes: Uint8Array | null
  /**
   * Frees the memory. Idempotent.
   * @throws ConnectorError ERR_KV_BUSY while a region in it is registered.
   */
  free(): void
}

export interface KvMemoryAllocator {
  /** Zeroed, 2 MiB-aligned memory. @throws ConnectorError ERR_KV_LIMIT when the system has none. */
  allocate(options: { readonly sizeBytes: number }): KvMemory
}

/** Where one layer's blocks lie: block `b` starts at `offsetBytes + b * blockStrideBytes`. */
export interface KvRegionLayout {
  /** Layer name; both sides of a transfer must name the same layers in the same order. */
  readonly name: string
  readonly memory: KvMemory
  readonly offsetBytes: number
  /** Bytes of one block that are moved. Multiple of the block's token count. */
  readonly blockSizeBytes: number
  /** Distance between blocks; at least `blockSizeBytes`. */
  readonly blockStrideBytes: number
  readonly blockCount: number
}

/** What an engine hands to `registerKvCaches`; everything that both sides must agree on travels in the handshake. */
export interface KvCacheLayout {
  readonly model: string
  readonly dtype: string
  /** vLLM's layout names, for example `LBNHC` (layer, block, token, head, content). */
  readonly layout: string
  readonly layerCount: number
  readonly kvHeadCount: number
  readonly headSize: number
  /** Tokens per block. */
  readonly blockTokens: number
  readonly blockCount: number
  readonly regions: readonly KvRegionLayout[]
}

/** One token's slot in a block: kernels work on lists of these, as parallel arrays. */
export interface TokenSlots {
  readonly blockIds: Uint32Array
  /** Position in the block, 0-based. Same length as `blockIds`. */
  readonly offsets: Uint32Array
}

/**
 * A range of bytes that holds whole blocks, packed: block after block, in each its regions in order,
 * without gaps. `slabLayout` (kv-layout.ts) describes it as caches whose block ids count from 0.
 */
export interface KvSlab {
  readonly memory: KvMemory
  readonly offsetBytes: number
}

/**
 * Tokens in a row: token `i` is slot `(firstToken + i) % blockTokens` of block
 * `blockIds[floor((firstToken + i) / blockTokens)]`, in the block size and order of `caches`.
 */
export interface TokenRun {
  readonly caches: KvCacheLayout
  readonly blockIds: Uint32Array
  /** Slots passed over at the start of the list. Default 0. */
  readonly firstToken?: number
}

/**
 * Work over KV memory, off the JS thread, in the order of its bytes and without a protocol. All reject
 * with TypeError for arguments or memory of another kind, RangeError for ids, lengths and ranges, and
 * ConnectorError ERR_KV_LIMIT (blocksPerPostMax, and the implementation's own bounds). Then nothing was
 * written. Memory can't be freed while a kernel works in it.
 *
 * Seeded content and digests of token slots: the digest of a slot is the sum over
 * regions (mod 2^64) of a hash of its bytes and its region index, so block and request digests are sums
 * of slot digests, in any order. `expect` computes the same without touching KV memory.
 */
export interface KvKernels {
  /** Writes the content of `seeds[i]` into slot `i`, and returns what `digest` must find there. */
  fill(caches: KvCacheLayout, slots: TokenSlots, seeds: BigUint64Array): Promise<BigUint64Array>
  digest(caches: KvCacheLayout, slots: TokenSlots): Promise<BigUint64Array>
  expect(caches: KvCacheLayout, seeds: BigUint64Array): Promise<BigUint64Array>
  /**
   * Copies whole blocks as they are into a slab: `blockIds.length` times the bytes of one block
   * (`blockBytes`). Ids may repeat. RangeError where the slab shares bytes with a block that is named.
   */
  gather(caches: KvCacheLayout, blockIds: Uint32Array, into: KvSlab): Promise<void>
  /** The way back: block `i` of the slab goes to `blockIds[i]`. RangeError also for an id named twice. */
  scatter(from: KvSlab, caches: KvCacheLayout, blockIds: Uint32Array): Promise<void>
  /**
   * Copies `tokenCount` tokens from one block size and order (`layout`: tokens before heads as in LBNHC
   * and NHD, or heads before tokens as in LBHNC and HND) into another. Other slots of the target's blocks
   * stay as they are. RangeError where the two differ in region names, heads or bytes of a token, where
   * `layout` names no order, and for a target block named twice.
   *
   * In place: a source block may share bytes with the one target block that all its tokens go to, in the
   * same region (blocks that were read piecewise, in the peer's block size); all bytes for a target
   * block are read before it is written. RangeError for any other overlap within one memory.
   */
  relayout(from: TokenRun, to: TokenRun, tokenCount: number): Promise<void>
}
