// Transfers whose two sides are blocks of one size each: there a slab is a range of their streams, cut by
// arithmetic, and a GPU computes addresses and list itself from the block ids, which travel to it once a
// transfer. So a slab costs the agent's thread the same however small its blocks are.
#pragma once

#include <cstdint>
#include <memory>

#include "cuda/kernel_arguments.h"
#include "cuda_lane.h"
#include "transfer_plan.h"

namespace kvferry {

/** What one slab carries of a transfer. */
struct SlabPart {
  /** Bytes of the stream before it. */
  uint64_t start = 0;
  uint64_t payloadBytes = 0;
  uint64_t listBytes = 0;
  /** Of its list, where a GPU writes it, at most `kStreamRunsMax`; 0 otherwise. */
  uint64_t runCount = 0;
};

/** The end of a block, whole ones, the start of one. */
inline constexpr uint64_t kStreamRunsMax = 3;

/**
 * The next slab of a stream of such blocks, of which `left` bytes are left. Cut within a block only at multiples of 16,
 * which kernels copy four times as fast.
 */
SlabPart cutStream(uint64_t blockBytes, uint64_t start, uint64_t left, uint64_t slabBytes) noexcept;

/** Pieces of two such streams of `bytes`, paired. */
uint64_t countPairs(uint64_t bytes, uint64_t blockBytes, uint64_t otherBlockBytes) noexcept;

/** The block ids of both sides in memory of a GPU. Outlives the kernels that read them. */
class SlabStream {
 public:
  /** Two even sides. */
  static Result open(CudaDevice& device, const PlanSide& local, const PlanSide& remote,
                     std::unique_ptr<SlabStream>* stream);
  ~SlabStream();
  SlabStream(const SlabStream&) = delete;
  SlabStream& operator=(const SlabStream&) = delete;

  /**
   * Enqueues on `lane`: bytes of the local side to or from `packed` (0: none), and the list of the remote side's to `list`
   * (0: none).
   */
  Result pack(CudaLane& lane, const SlabPart& part, uint64_t packed, bool isGather, uint64_t list);

 private:
  explicit SlabStream(CudaDevice& device) noexcept : device_(device) {}

  CudaDevice& device_;
  std::unique_ptr<CudaLane> lane_;
  kernels::BlockStream local_ = {};
  kernels::BlockStream remote_ = {};
  bool isThere_ = false;
};

}  // namespace kvferry
