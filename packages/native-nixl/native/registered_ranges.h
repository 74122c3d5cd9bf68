// Registered memory, for the check of what a borrower of slabs names. The agent's thread only.
#pragma once

#include <cstdint>
#include <vector>

#include "cuda/kernel_arguments.h"
#include "slab_wire.h"

namespace kvferry {

/** Sorted; they may lie in one another. */
class RegisteredRanges {
 public:
  void add(uint64_t address, uint64_t bytes);
  void remove(uint64_t address, uint64_t bytes);
  /** In one of them. */
  bool contains(const SlabPiece& piece) const noexcept;
  /** Another one after each change; never 0. */
  uint64_t version() const noexcept { return version_; }
  /** As `kvferry_move_listed` looks them up, with the same answers as `contains`. */
  std::vector<kernels::AddressRange> forKernel() const;

 private:
  std::vector<SlabPiece> ranges_;
  uint64_t version_ = 1;
};

}  // namespace kvferry
