// Tasks over token slots: seeded content and digests (kernels.h). Knows no layout names and no
// engines. Made on the JS thread, run by the kernel pool.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernel_task.h"

namespace kvferry {

enum class KernelKind : uint8_t { kFill, kDigest, kExpect };

/** Regions need no memory for kExpect, which touches none. */
struct KernelJob {
  KernelKind kind = KernelKind::kDigest;
  uint64_t blockTokens = 0;
  std::vector<KernelRegion> regions;
  /** Slot i is token `offsets[i]` of block `blockIds[i]`. Empty for kExpect. */
  std::vector<uint32_t> blockIds;
  std::vector<uint32_t> offsets;
  /** One per slot for kFill and kExpect; empty for kDigest. */
  std::vector<uint64_t> seeds;
};

/**
 * Checks everything and pins the memory. kOutOfRange: a block size that isn't a positive multiple
 * of 8 * blockTokens, a stride below it, a region beyond its memory, ids, offsets or lengths out of
 * range, a slot named twice by kFill (two threads would write it); kClosed: a memory is freed;
 * kLimit. Its digests: one per slot, in order.
 */
Result makeContentTask(KernelJob job, std::unique_ptr<KernelTask>* task);

}  // namespace kvferry
