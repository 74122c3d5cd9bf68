// Tasks that copy KV bytes from place to place: whole blocks to and from packed slabs, and tokens
// from one block size and order of tokens and heads to another. Made on the JS thread, where all
// that could go wrong is refused; run by the kernel pool. They decide nothing and know no names.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernel_task.h"

namespace kvferry {

/** Whole blocks, and a slab that holds them packed: block after block, in each its regions. */
struct BlockCopy {
  /** Blocks to slab; false: slab to blocks. */
  bool isGather = true;
  std::vector<KernelRegion> regions;
  std::vector<uint32_t> blockIds;
  std::shared_ptr<Memory> slab;
  uint64_t slabOffsetBytes = 0;
};

/**
 * kOutOfRange: a region beyond its memory, an id out of range, a slab that is too short or shares
 * bytes with a block that is named; for a scatter also a block that is written twice, by its id or
 * because regions overlap; kClosed: freed memory; kLimit: blocksPerPostMax, regionCountMax.
 */
Result makeBlockCopyTask(BlockCopy copy, std::unique_ptr<KernelTask>* task);

/** Tokens in a row: token i is slot (first + i) % blockTokens of blockIds[(first + i) / ...]. */
struct TokenRun {
  uint64_t blockTokens = 0;
  /** Within a block each head's tokens lie together, not each token's heads. */
  bool isHeadMajor = false;
  std::vector<KernelRegion> regions;
  std::vector<uint32_t> blockIds;
  uint64_t firstToken = 0;
};

struct Relayout {
  TokenRun from;
  TokenRun to;
  uint64_t headCount = 1;
  uint64_t tokenCount = 0;
};

/**
 * As above, and kOutOfRange where the runs differ in regions or bytes of a token, don't hold the
 * tokens, or where a source block shares bytes with a target block, unless it is the only one its
 * tokens go to, in the same region: that is in place, and read before it is written.
 */
Result makeRelayoutTask(Relayout relayout, std::unique_ptr<KernelTask>* task);

}  // namespace kvferry
