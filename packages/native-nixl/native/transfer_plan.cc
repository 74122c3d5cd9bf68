#include "transfer_plan.h"

#include <algorithm>
#include <string>
#include <utility>

#include "limits.h"
#include "side_cursor.h"

namespace kvferry {
namespace {

Result badPost(std::string detail) { return Result::outOfRange("post", std::move(detail)); }

Result badSegment(size_t index, const char* reason) {
  return badPost("segment " + std::to_string(index) + ": " + reason);
}

bool isNeighbour(const CopyDescriptor& first, const CopyDescriptor& second) noexcept {
  return first.local + first.bytes == second.local && first.remote + first.bytes == second.remote &&
         first.localRegistration == second.localRegistration &&
         first.remoteRegistration == second.remoteRegistration;
}

/** Appends, or lengthens the last one. */
void appendMerged(std::vector<CopyDescriptor>& descriptors, const CopyDescriptor& next) {
  if (!descriptors.empty() && isNeighbour(descriptors.back(), next)) {
    descriptors.back().bytes += next.bytes;
  } else {
    descriptors.push_back(next);
  }
}

void mergeSorted(std::vector<CopyDescriptor>& descriptors) {
  size_t last = 0;
  for (size_t i = 1; i < descriptors.size(); i++) {
    if (isNeighbour(descriptors[last], descriptors[i])) {
      descriptors[last].bytes += descriptors[i].bytes;
    } else {
      descriptors[++last] = descriptors[i];
    }
  }
  descriptors.resize(last + 1);
}

struct IdFacts {
  bool areInside = true;
  /** Each id is above the one before it: then none comes twice. */
  bool isAscending = true;
};

/**
 * What a check needs to know of a list that isn't empty, whose ids should be at most `last`. A good list has to
 * be read to its end, so nothing here leaves early: sign bits are collected, in chunks of a fixed length, which
 * the compiler takes four ids at a time. Of numbers below 2^31, a difference has the sign bit if it is negative;
 * an id that isn't below has it itself.
 */
IdFacts factsOf(const uint32_t* ids, size_t count, uint32_t last) {
  constexpr size_t kChunk = 64;
  static_assert(limits::kBlockCountMax <= uint64_t{1} << 31);
  uint32_t outside = (last - ids[0]) | ids[0];
  uint32_t falls = 0;
  const uint32_t* at = ids + 1;
  const auto look = [&](size_t i) {
    outside |= (last - at[i]) | at[i];
    falls |= at[i] - at[i - 1] - 1;
  };
  size_t left = count - 1;
  for (; left >= kChunk; left -= kChunk, at += kChunk) {
    for (size_t i = 0; i < kChunk; i++) look(i);
  }
  for (size_t i = 0; i < left; i++) look(i);
  return {outside >> 31 == 0, falls >> 31 == 0};
}

Result checkBlocks(const PlanSide& side, bool isDestination, PlanScratch& scratch,
                   SideTotals* totals) {
  if (side.count > limits::kBlocksPerPostMax) {
    return Result::overLimit("blocksPerPostMax", side.count, limits::kBlocksPerPostMax);
  }
  const uint64_t blockCount = side.table->blockCount;
  const IdFacts facts = factsOf(side.ids, side.count, static_cast<uint32_t>(blockCount - 1));
  if (!facts.areInside) {
    const uint32_t id = *std::find_if(side.ids, side.ids + side.count,
                                      [&](uint32_t each) { return each >= blockCount; });
    return badPost("block id " + std::to_string(id) + " of " + std::to_string(blockCount));
  }
  if (isDestination && !facts.isAscending && scratch.hasDuplicate(side.ids, side.count, blockCount)) {
    return badPost("a destination block is named twice");
  }
  if (__builtin_mul_overflow(side.count, side.table->bytesPerBlock, &totals->bytes)) {
    return badPost("total length");
  }
  totals->descriptors = side.count * side.table->regions.size();
  return Result::success();
}

Result checkSegments(const PlanSide& side, bool isDestination, PlanScratch& scratch,
                     SideTotals* totals) {
  if (side.count > limits::kSegmentsPerPostMax) {
    return Result::overLimit("segmentsPerPostMax", side.count, limits::kSegmentsPerPostMax);
  }
  for (size_t i = 0; i < side.count; i++) {
    if (side.regions[i] >= side.table->regions.size()) return badSegment(i, "no such region");
    if (side.lengths[i] == 0) return badSegment(i, "its length is zero");
    uint64_t end = 0;
    if (__builtin_add_overflow(side.offsets[i], side.lengths[i], &end) ||
        end > side.table->regions[side.regions[i]].spanBytes()) {
      return badSegment(i, "it ends outside the region");
    }
    if (__builtin_add_overflow(totals->bytes, side.lengths[i], &totals->bytes)) {
      return badPost("total length");
    }
  }
  if (isDestination && scratch.hasOverlap(side)) return badPost("destination segments overlap");
  totals->descriptors = side.count;
  return Result::success();
}

}  // namespace

bool PlanScratch::hasDuplicate(const uint32_t* ids, size_t count, uint64_t blockCount) {
  // One stamp per block, compared with the number of this check: no clearing between checks.
  if (stamps_.size() < blockCount) stamps_.resize(blockCount, 0);
  if (++stamp_ == 0) {
    std::fill(stamps_.begin(), stamps_.end(), 0);
    stamp_ = 1;
  }
  // Of its own: a stamp that is written could otherwise be this number, for all that the compiler knows.
  const uint32_t stamp = stamp_;
  uint32_t* stamps = stamps_.data();
  for (size_t i = 0; i < count; i++) {
    if (stamps[ids[i]] == stamp) return true;
    stamps[ids[i]] = stamp;
  }
  return false;
}

bool PlanScratch::hasOverlap(const PlanSide& side) {
  ranges_.clear();
  for (size_t i = 0; i < side.count; i++) {
    const uint64_t start = side.table->regions[side.regions[i]].address + side.offsets[i];
    ranges_.push_back({start, start + side.lengths[i]});
  }
  const auto isBefore = [](const Range& a, const Range& b) { return a.start < b.start; };
  if (!std::is_sorted(ranges_.begin(), ranges_.end(), isBefore)) {
    std::sort(ranges_.begin(), ranges_.end(), isBefore);
  }
  for (size_t i = 1; i < ranges_.size(); i++) {
    if (ranges_[i].start < ranges_[i - 1].end) return true;
  }
  return false;
}

Result checkSide(const PlanSide& side, bool isDestination, PlanScratch& scratch,
                 SideTotals* totals) {
  *totals = {};
  if (side.count == 0) return badPost("a side is empty");
  Result checked = side.isSegments ? checkSegments(side, isDestination, scratch, totals)
                                   : checkBlocks(side, isDestination, scratch, totals);
  if (!checked.ok()) return checked;
  if (totals->descriptors > limits::kDescriptorsPerPostMax) {
    return Result::overLimit("descriptorsPerPostMax", totals->descriptors,
                             limits::kDescriptorsPerPostMax);
  }
  return checked;
}

Result checkPost(const PlanSide& local, const PlanSide& remote, bool isRead, PlanScratch& scratch,
                 uint64_t* bytes) {
  SideTotals localTotals;
  SideTotals remoteTotals;
  Result checked = checkSide(local, isRead, scratch, &localTotals);
  if (checked.ok()) checked = checkSide(remote, !isRead, scratch, &remoteTotals);
  if (!checked.ok()) return checked;
  if (localTotals.bytes != remoteTotals.bytes) {
    return badPost("the sides differ in length: " + std::to_string(localTotals.bytes) +
               " bytes local, " + std::to_string(remoteTotals.bytes) + " remote");
  }
  *bytes = localTotals.bytes;
  return checked;
}

void buildPlan(const PlanSide& local, const PlanSide& remote, TransferPlan* plan) {
  plan->descriptors.clear();
  plan->descriptorsBeforeMerge = 0;
  plan->bytes = 0;
  SideCursor from(local);
  SideCursor to(remote);
  bool isSorted = true;
  while (!from.isAtEnd() && !to.isAtEnd()) {
    const uint64_t bytes = std::min(from.left(), to.left());
    const CopyDescriptor next{from.address(), to.address(), bytes, from.registration(),
                              to.registration()};
    if (!plan->descriptors.empty() && next.local < plan->descriptors.back().local) isSorted = false;
    appendMerged(plan->descriptors, next);
    plan->descriptorsBeforeMerge += 1;
    plan->bytes += bytes;
    from.take(bytes);
    to.take(bytes);
  }
  if (isSorted || plan->descriptors.empty()) return;
  std::sort(plan->descriptors.begin(), plan->descriptors.end(),
            [](const CopyDescriptor& a, const CopyDescriptor& b) { return a.local < b.local; });
  mergeSorted(plan->descriptors);
}

}  // namespace kvferry
