// A list of pieces for the copy kernel, from its making to its launch. The caller's thread and lane.
#pragma once

#include <cstdint>
#include <vector>

#include "cuda/kernel_arguments.h"
#include "cuda_lane.h"

namespace kvferry {

class PieceCopy {
 public:
  /** Long ones are cut, so that a single one occupies the whole GPU. */
  void add(uint64_t to, uint64_t from, uint64_t bytes);
  bool isEmpty() const noexcept { return pieces_.empty(); }
  void clear() { pieces_.clear(); }
  uint64_t listBytes() const noexcept { return pieces_.size() * sizeof(kernels::CopyPiece); }

  /** In a lane that has `listBytes` reserved. Enqueues the upload of the list and the kernel, in at most `ctaMax` CTAs. */
  Result enqueue(CudaDevice& device, CudaLane& lane, uint64_t ctaMax = ~uint64_t{0}) const;

 private:
  std::vector<kernels::CopyPiece> pieces_;
};

}  // namespace kvferry
