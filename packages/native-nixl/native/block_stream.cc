#include "block_stream.h"

#include <algorithm>
#include <cstring>

#include "kernel_launch.h"

namespace kvferry {
namespace {

constexpr uint64_t padded(uint64_t bytes) noexcept { return (bytes + 15) / 16 * 16; }

uint64_t regionBytes(const PlanSide& side) noexcept {
  return padded(side.table->regions.size() * sizeof(kernels::DeviceRegion));
}

}  // namespace

bool isEven(const PlanSide& side) noexcept {
  if (side.isSegments) return false;
  const std::vector<BlockRegion>& regions = side.table->regions;
  return std::all_of(regions.begin(), regions.end(), [&](const BlockRegion& region) {
    return region.blockSizeBytes == regions.front().blockSizeBytes;
  });
}

uint64_t streamBytes(const PlanSide& side) noexcept {
  return regionBytes(side) + padded(side.count * sizeof(uint32_t));
}

kernels::BlockStream putStream(const PlanSide& side, const CudaLane& lane, uint64_t at) {
  const std::vector<BlockRegion>& regions = side.table->regions;
  auto* to = reinterpret_cast<kernels::DeviceRegion*>(lane.host() + at);
  for (const BlockRegion& region : regions) {
    *to++ = {region.address, region.blockStrideBytes, region.blockSizeBytes};
  }
  // Ids are many, and copied only once.
  const uint64_t idsAt = at + regionBytes(side);
  std::memcpy(lane.host() + idsAt, side.ids, side.count * sizeof(uint32_t));
  return {pointerTo<const kernels::DeviceRegion>(lane, at),
          pointerTo<const uint32_t>(lane, idsAt),
          regions.size(),
          side.count,
          regions.front().blockSizeBytes,
          0};
}

}  // namespace kvferry
