// Moves bytes between slabs and memory: at once on the host, later on a GPU, where a job says when it is over. One
// agent's; its thread only.
#pragma once

#include <memory>
#include <vector>

#include "cuda/kernel_arguments.h"
#include "cuda_device.h"
#include "piece_copy.h"

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
  /** Fetches bytes of a slab; `fetched` has them once the job is over. */
  Result fetch(uint64_t from, uint64_t sizeBytes, SlabJob* job);
  /** Needs the job, before `close`. On the host the bytes are where they were. */
  void fetched(const SlabJob& job, uint64_t from, uint64_t sizeBytes, std::vector<uint8_t>* bytes);

  /** Whether it is over; then, or when it failed, the job is null again unless `isKept`. */
  Result poll(SlabJob* job, bool* isOver, bool isKept = false);
  /** Blocks until it is over (microseconds). A job that failed is kept for `poll` to say so. */
  void settle(SlabJob* job) noexcept;
  void close(SlabJob* job);

 private:
  const std::shared_ptr<CudaDevice> device_;
  PieceCopy pieces_;
};

}  // namespace kvferry
