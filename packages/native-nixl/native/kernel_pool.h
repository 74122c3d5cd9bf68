// A few threads that run kernels (kernels.h) over host memory, off the JS thread. Jobs are split
// into batches of slots, so one job uses all threads. Called from the JS thread; results are taken
// with `drain` after the sink was notified. Memory is pinned while a job is queued or runs. Knows
// no layout names and no engines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "completion_sink.h"
#include "host_memory.h"
#include "status.h"

namespace kvferry {

enum class KernelKind : uint8_t { kFill, kDigest, kExpect };

/** Where one region's blocks lie. `memory` may be null for kExpect, which touches none. */
struct KernelRegion {
  std::shared_ptr<HostMemory> memory;
  uint64_t offsetBytes = 0;
  uint64_t blockSizeBytes = 0;
  uint64_t blockStrideBytes = 0;
  uint64_t blockCount = 0;
};

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

struct KernelCompletion {
  uint64_t ticket = 0;
  /** One digest per slot, in order. */
  std::vector<uint64_t> digests;
};

class KernelPool {
 public:
  /** `threadCount` is clamped to [1, kKernelThreadCountMax]. The sink must outlive the pool. */
  static std::unique_ptr<KernelPool> create(uint64_t threadCount, CompletionSink& sink);

  /** Abandons queued jobs, waits for running batches (microseconds), joins. */
  ~KernelPool();
  KernelPool(const KernelPool&) = delete;
  KernelPool& operator=(const KernelPool&) = delete;

  /**
   * Checks everything, then enqueues. kOutOfRange: a block size that isn't a positive multiple of
   * 8 * blockTokens, a stride below it, a region beyond its memory, ids, offsets or lengths out of
   * range, a slot named twice by kFill (two threads would write it); kClosed: a memory is freed;
   * kLimit.
   */
  Result submit(KernelJob job, uint64_t* ticket);

  /** Moves finished jobs to the end of `out`. */
  void drain(std::vector<KernelCompletion>* out);

  /** Stops and joins; no notify after it returns. Idempotent; also what the destructor does. */
  void shutdownNow();

 private:
  struct Core;
  explicit KernelPool(std::unique_ptr<Core> core);
  std::unique_ptr<Core> core_;
};

}  // namespace kvferry
