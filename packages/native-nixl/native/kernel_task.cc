#include "kernel_task.h"

#include <algorithm>
#include <utility>

#include "limits.h"

namespace kvferry {

Result KernelTask::pin(const std::shared_ptr<Memory>& memory) {
  MemoryPin pin(memory);
  if (!pin) return Result::failure(Status::kClosed, "kernel", "the memory was freed");
  pins_.push_back(std::move(pin));
  return Result::success();
}

Result KernelTask::pin(const std::vector<KernelRegion>& regions) {
  const Memory* previous = nullptr;
  for (const KernelRegion& region : regions) {
    // Layers usually share one allocation.
    if (region.memory.get() == previous) continue;
    Result pinned = pin(region.memory);
    if (!pinned.ok()) return pinned;
    previous = region.memory.get();
  }
  return Result::success();
}

Result checkKernelRegion(const KernelRegion& region, size_t index) {
  const std::string where = "region " + std::to_string(index) + ": ";
  if (region.memory == nullptr) return badKernel(where + "no memory");
  if (region.blockSizeBytes == 0) return badKernel(where + "blocks without bytes");
  if (region.blockStrideBytes < region.blockSizeBytes) {
    return badKernel(where + "the stride is below the block size");
  }
  if (region.blockCount == 0 || region.blockCount > limits::kBlockCountMax) {
    return badKernel(where + "block count");
  }
  uint64_t lastStart = 0;
  uint64_t end = 0;
  const bool isWrapping =
      __builtin_mul_overflow(region.blockStrideBytes, region.blockCount - 1, &lastStart) ||
      __builtin_add_overflow(lastStart, region.blockSizeBytes, &end) ||
      __builtin_add_overflow(end, region.offsetBytes, &end);
  if (isWrapping || end > region.memory->sizeBytes()) {
    return badKernel(where + "its blocks reach beyond its memory");
  }
  return Result::success();
}

std::vector<const Memory*> memoriesOf(const std::vector<KernelRegion>& regions, const Memory* more) {
  std::vector<const Memory*> memories{more};
  for (const KernelRegion& region : regions) memories.push_back(region.memory.get());
  return memories;
}

uint64_t blockCountOf(const std::vector<KernelRegion>& regions) {
  uint64_t blockCount = limits::kBlockCountMax;
  for (const KernelRegion& region : regions) blockCount = std::min(blockCount, region.blockCount);
  return blockCount;
}

}  // namespace kvferry
