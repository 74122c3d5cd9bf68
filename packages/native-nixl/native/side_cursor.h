// Walks a side of a post piece by piece, as the stream of bytes that it stands for. Borrows the side.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "transfer_plan.h"

namespace kvferry {

class SideCursor {
 public:
  explicit SideCursor(const PlanSide& side) : side_(side) { load(); }

  bool isAtEnd() const noexcept { return left_ == 0; }
  uint64_t address() const noexcept { return address_; }
  /** Bytes of the current piece that haven't been taken. */
  uint64_t left() const noexcept { return left_; }
  uint32_t registration() const noexcept { return registration_; }

  /** At most `left()`. */
  void take(uint64_t bytes) noexcept {
    address_ += bytes;
    left_ -= bytes;
    if (left_ == 0) advance();
  }

 private:
  void advance() noexcept {
    index_ += 1;
    if (!side_.isSegments && index_ == side_.count) {
      index_ = 0;
      region_ += 1;
    }
    load();
  }

  void load() noexcept {
    if (side_.isSegments) {
      if (index_ == side_.count) return;
      const BlockRegion& region = side_.table->regions[side_.regions[index_]];
      address_ = region.address + side_.offsets[index_];
      registration_ = static_cast<uint32_t>(region.registration);
      left_ = side_.lengths[index_];
      return;
    }
    if (region_ == side_.table->regions.size()) return;
    const BlockRegion& region = side_.table->regions[region_];
    address_ = region.address + side_.ids[index_] * region.blockStrideBytes;
    registration_ = static_cast<uint32_t>(region.registration);
    left_ = region.blockSizeBytes;
  }

  PlanSide side_;
  size_t index_ = 0;
  size_t region_ = 0;
  uint64_t address_ = 0;
  uint64_t left_ = 0;
  uint32_t registration_ = 0;
};

}  // namespace kvferry
