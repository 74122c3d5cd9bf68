#include "registered_ranges.h"

#include <algorithm>

namespace kvferry {

void RegisteredRanges::add(uint64_t address, uint64_t bytes) {
  const SlabPiece range{address, bytes};
  const auto at = std::upper_bound(ranges_.begin(), ranges_.end(), range,
                                   [](const auto& a, const auto& b) { return a.address < b.address; });
  ranges_.insert(at, range);
  version_ += 1;
}

void RegisteredRanges::remove(uint64_t address, uint64_t bytes) {
  const auto at = std::find_if(ranges_.begin(), ranges_.end(), [&](const SlabPiece& range) {
    return range.address == address && range.bytes == bytes;
  });
  if (at == ranges_.end()) return;
  ranges_.erase(at);
  version_ += 1;
}

bool RegisteredRanges::contains(const SlabPiece& piece) const noexcept {
  // Regions may lie in one another, so the last one that starts before need not be the one.
  for (const SlabPiece& range : ranges_) {
    if (range.address > piece.address) return false;
    if (piece.address + piece.bytes <= range.address + range.bytes) return true;
  }
  return false;
}

std::vector<kernels::AddressRange> RegisteredRanges::forKernel() const {
  std::vector<kernels::AddressRange> list;
  uint64_t end = 0;
  for (const SlabPiece& range : ranges_) {
    end = std::max(end, range.address + range.bytes);
    list.push_back({range.address, end});
  }
  return list;
}

}  // namespace kvferry
