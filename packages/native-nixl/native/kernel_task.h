// A piece of work for the kernel pool, cut into batches that may run at the same time on any of its
// threads, and what all kinds have in common: regions that lie within their memory, and pins. Made
// and checked on the JS thread (content_task.h, copy_task.h); run by the pool; never waits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "memory.h"
#include "status.h"

namespace kvferry {

/** Where one region's blocks lie. `memory` is null only where a kernel touches none. */
struct KernelRegion {
  std::shared_ptr<Memory> memory;
  uint64_t offsetBytes = 0;
  uint64_t blockSizeBytes = 0;
  uint64_t blockStrideBytes = 0;
  uint64_t blockCount = 0;

  uint64_t blockStart(uint64_t block) const noexcept {
    return offsetBytes + block * blockStrideBytes;
  }
  /** Dereference only while the memory is pinned. */
  uint8_t* blockData(uint64_t block) const noexcept { return memory->data() + blockStart(block); }
};

class KernelTask {
 public:
  virtual ~KernelTask() = default;
  KernelTask(const KernelTask&) = delete;
  KernelTask& operator=(const KernelTask&) = delete;

  uint64_t batchCount() const noexcept { return batchCount_; }
  /** Each batch once. `scratch` belongs to the calling thread and keeps its storage. */
  virtual void runBatch(uint64_t batch, std::vector<uint8_t>& scratch) = 0;
  /** After the last batch: what the kernel answers (digests), often nothing. */
  virtual std::vector<uint64_t> takeDigests() { return {}; }
  /** After the last batch: what went wrong on a GPU. On the host nothing can. */
  virtual Result takeOutcome() { return Result::success(); }
  /** After the last batch. */
  void unpin() { pins_.clear(); }

 protected:
  KernelTask() = default;
  /** kClosed when it was freed. */
  Result pin(const std::shared_ptr<Memory>& memory);
  Result pin(const std::vector<KernelRegion>& regions);

  /** An empty task still takes one (empty) batch: completions come from the pool's threads alone.
   */
  uint64_t batchCount_ = 1;

 private:
  std::vector<MemoryPin> pins_;
};

/** kOutOfRange unless every block of the region lies within its memory. */
Result checkKernelRegion(const KernelRegion& region, size_t index);

/** Of the regions, and `more`. */
std::vector<const Memory*> memoriesOf(const std::vector<KernelRegion>& regions,
                                      const Memory* more = nullptr);

/** The smallest block count of the regions. */
uint64_t blockCountOf(const std::vector<KernelRegion>& regions);

inline Result badKernel(std::string detail) {
  return Result::outOfRange("kernel", std::move(detail));
}

/** Bytes of one batch: long enough to hide the hand-over, short enough to share a task out evenly.
 */
inline constexpr uint64_t kKernelBatchBytes = 256 * 1024;

}  // namespace kvferry
