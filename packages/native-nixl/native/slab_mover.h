// Moves bytes between slabs and memory: at once on the host, later on a GPU, where a job says when it is over. One
// agent's; its thread only.
#pragma once

#include <memory>
#include <vector>

#include "cuda/kernel_arguments.h"
#include "cuda_device.h"
#include "piece_copy.h"
#include "slab_stream.h"

namespace kvferry {

/** Under way on a GPU; null: over. */
using SlabJob = std::unique_ptr<CudaLane>;

class SlabMover {
 public:
  /** Null: the host. */
  explicit SlabMover(std::shared_ptr<CudaDevice> device);
  SlabMover(const SlabMover&) = delete;
  SlabMover& operator=(const SlabMover&) = delete;

  /** Copies the pieces, and `list` from memory of ours to `listTo`. The vectors may change as soon as it returns. */
  Result start(const std::vector<kernels::CopyPiece>& pieces, const std::vector<uint8_t>& list,
               uint64_t listTo, SlabJob* job);
  /** Of a transfer; null on the host, and where a side isn't even: then its pieces are listed. */
  Result open(const PlanSide& local, const PlanSide& remote, std::unique_ptr<SlabStream>* stream);
  /** Fills a slab from the stream: the payload, unless `isRead`, and its list. */
  Result fill(SlabStream& stream, const SlabPart& part, uint64_t slab, bool isRead, SlabJob* job);
  /** Puts the payload of a slab in place. */
  Result place(SlabStream& stream, const SlabPart& part, uint64_t slab, SlabJob* job);

  /** Whether a list of so many runs is read by the GPU itself. */
  bool canMoveListed(uint64_t runCount) const noexcept {
    return device_ != nullptr && runCount > 0 && runCount <= kStreamRunsMax;
  }
  /** What may be touched by `moveListed`. No such job may be under way. */
  Result setRanges(const std::vector<kernels::AddressRange>& ranges);
  /** Moves a slab's payload to the pieces of its list, or from them: all, or none where one isn't in the ranges. */
  Result moveListed(const SlabPart& part, uint64_t slab, bool isScatter, SlabJob* job);
  /** Of such a job, which is over: 0, or why nothing was moved. */
  uint64_t answerOf(const SlabJob& job) const noexcept;

  /** Fetches bytes of a slab; `fetched` has them once the job is over. */
  Result fetch(uint64_t from, uint64_t sizeBytes, SlabJob* job);
  /** Needs the job, before `close`. On the host the bytes are where they were. */
  void fetched(const SlabJob& job, uint64_t from, uint64_t sizeBytes, std::vector<uint8_t>* bytes);

  /** Whether it is over; then, or when it failed, the job is null again unless `isKept`. */
  Result poll(SlabJob* job, bool* isOver, bool isKept = false);
  /** Blocks until it is over (microseconds). `poll` says then how it went. */
  void settle(const SlabJob& job) noexcept;
  void close(SlabJob* job);

 private:
  const std::shared_ptr<CudaDevice> device_;
  PieceCopy pieces_;
  /** Holds the ranges, on the GPU. */
  SlabJob ranges_;
  uint64_t rangeCount_ = 0;
};

}  // namespace kvferry
