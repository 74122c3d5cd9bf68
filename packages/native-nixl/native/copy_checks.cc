#include "copy_checks.h"

#include <algorithm>
#include <set>
#include <string>
#include <tuple>

#include "limits.h"

namespace kvferry {
namespace {

/** From the start of block 0 to the end of the last block. */
uint64_t spanBytes(const KernelRegion& region) {
  return (region.blockCount - 1) * region.blockStrideBytes + region.blockSizeBytes;
}

bool isSpanMeeting(const KernelRegion& a, const KernelRegion& b) {
  return a.memory == b.memory && a.offsetBytes < b.offsetBytes + spanBytes(b) &&
         b.offsetBytes < a.offsetBytes + spanBytes(a);
}

bool isBlockMeeting(const KernelRegion& a, uint64_t blockOfA, const KernelRegion& b,
                    uint64_t blockOfB) {
  return a.blockStart(blockOfA) < b.blockStart(blockOfB) + b.blockSizeBytes &&
         b.blockStart(blockOfB) < a.blockStart(blockOfA) + a.blockSizeBytes;
}

/** Blocks of `region` that may touch the `sizeBytes` from `start` on: first and last + 1. */
std::pair<uint64_t, uint64_t> blocksAround(const KernelRegion& region, uint64_t start,
                                           uint64_t sizeBytes) {
  const uint64_t before = region.offsetBytes + region.blockSizeBytes;
  const uint64_t first = start < before ? 0 : (start - before) / region.blockStrideBytes + 1;
  const uint64_t end = start + sizeBytes;
  if (end <= region.offsetBytes) return {0, 0};
  const uint64_t last = (end - region.offsetBytes - 1) / region.blockStrideBytes;
  return {first, std::min(last, region.blockCount - 1) + 1};
}

/** Calls `visit(id)` for each id of `ids` in [first, end), whichever way is shorter. */
template <class Ids, class Visit>
bool anyWithin(const Ids& ids, std::pair<uint64_t, uint64_t> range, Visit visit) {
  if (range.second - range.first <= ids.size()) {
    for (uint64_t id = range.first; id < range.second; id++) {
      const auto found = ids.find(static_cast<uint32_t>(id));
      if (found != ids.end() && visit(*found)) return true;
    }
    return false;
  }
  return std::any_of(ids.begin(), ids.end(), visit);
}

}  // namespace

Result checkBlocks(const std::vector<KernelRegion>& regions,
                   const std::vector<uint32_t>& blockIds) {
  if (regions.empty()) return badKernel("no region");
  if (regions.size() > limits::kRegionCountMax) {
    return Result::overLimit("regionCountMax", regions.size(), limits::kRegionCountMax);
  }
  if (blockIds.size() > limits::kBlocksPerPostMax) {
    return Result::overLimit("blocksPerPostMax", blockIds.size(), limits::kBlocksPerPostMax);
  }
  for (size_t i = 0; i < regions.size(); i++) {
    Result checked = checkKernelRegion(regions[i], i);
    if (!checked.ok()) return checked;
  }
  const uint64_t blockCount = blockCountOf(regions);
  for (const uint32_t id : blockIds) {
    if (id >= blockCount) {
      return badKernel("block " + std::to_string(id) + " of " + std::to_string(blockCount));
    }
  }
  return Result::success();
}

Result checkWrittenOnce(const std::vector<KernelRegion>& regions,
                        const std::vector<uint32_t>& blockIds) {
  std::vector<bool> isNamed(blockCountOf(regions), false);
  for (const uint32_t id : blockIds) {
    if (isNamed[id]) return badKernel("a block is named twice");
    isNamed[id] = true;
  }
  // Filled when two regions meet, which is seldom: it costs more than the copy.
  std::unordered_map<uint32_t, uint64_t> ids;
  // Pairs of the same relative place have the same answer; layers mostly come in a few.
  std::set<std::tuple<uint64_t, uint64_t, uint64_t, uint64_t, uint64_t>> seen;
  for (size_t a = 0; a < regions.size(); a++) {
    for (size_t b = 0; b < regions.size(); b++) {
      const KernelRegion& first = regions[a];
      const KernelRegion& second = regions[b];
      const bool isOrdered = first.offsetBytes < second.offsetBytes ||
                             (first.offsetBytes == second.offsetBytes && a < b);
      if (!isOrdered || !isSpanMeeting(first, second)) continue;
      const auto key =
          std::make_tuple(second.offsetBytes - first.offsetBytes, first.blockStrideBytes,
                          first.blockSizeBytes, second.blockStrideBytes, second.blockSizeBytes);
      if (!seen.insert(key).second) continue;
      if (ids.empty()) {
        for (const uint32_t id : blockIds) ids.emplace(id, 0);
      }
      for (const uint32_t id : blockIds) {
        const auto around = blocksAround(second, first.blockStart(id), first.blockSizeBytes);
        const bool isMeeting = anyWithin(ids, around, [&](const auto& other) {
          return isBlockMeeting(first, id, second, other.first);
        });
        if (isMeeting) return badKernel("blocks of two regions overlap");
      }
    }
  }
  return Result::success();
}

Result checkOverlap(const std::vector<KernelRegion>& from, const TargetsOfSource& sources,
                    const std::vector<KernelRegion>& to,
                    const std::unordered_map<uint32_t, uint64_t>& targets, bool* isInPlace) {
  *isInPlace = false;
  std::set<std::tuple<bool, int64_t, uint64_t, uint64_t, uint64_t, uint64_t>> seen;
  for (size_t a = 0; a < from.size(); a++) {
    for (size_t b = 0; b < to.size(); b++) {
      const KernelRegion& source = from[a];
      const KernelRegion& target = to[b];
      if (!isSpanMeeting(source, target)) continue;
      const auto distance = static_cast<int64_t>(source.offsetBytes - target.offsetBytes);
      const auto key =
          std::make_tuple(a == b, distance, source.blockStrideBytes, source.blockSizeBytes,
                          target.blockStrideBytes, target.blockSizeBytes);
      if (!seen.insert(key).second) continue;
      for (const auto& [id, ownTarget] : sources) {
        const auto around = blocksAround(target, source.blockStart(id), source.blockSizeBytes);
        const uint32_t block = id;
        const uint64_t own = ownTarget;
        const bool isForeign = anyWithin(targets, around, [&](const auto& other) {
          if (!isBlockMeeting(source, block, target, other.first)) return false;
          if (a != b || other.second != own) return true;
          *isInPlace = true;
          return false;
        });
        if (isForeign) {
          return badKernel("source block " + std::to_string(id) + " overlaps another target block");
        }
      }
    }
  }
  return Result::success();
}

}  // namespace kvferry
