// From two sides of a post (block ids of a table, or byte segments) to the list of copies that the
// library gets: pure arithmetic. `checkSide` and `checkPost` run on the caller's thread before
// anything is enqueued; `buildPlan` runs on the agent's thread and trusts them.
//
// A side is a stream of bytes: its blocks region-major (all ids of region 0, then 1, ...), or its
// segments in order. The two streams are paired from the front, the pieces sorted by local address,
// and neighbours on both sides merged, because a descriptor costs microseconds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "block_table.h"
#include "status.h"

namespace kvferry {

/** One side, borrowed. Blocks: `ids`. Segments: three arrays; offsets count from block 0 of the
 * region. */
struct PlanSide {
  const BlockTable* table = nullptr;
  bool isSegments = false;
  size_t count = 0;
  const uint32_t* ids = nullptr;
  const uint32_t* regions = nullptr;
  const uint64_t* offsets = nullptr;
  const uint64_t* lengths = nullptr;
};

struct SideTotals {
  uint64_t bytes = 0;
  uint64_t descriptors = 0;
};

/** Memory that checks reuse from post to post, one per thread. */
class PlanScratch {
 public:
  /** Whether any id occurs twice. Ids are below `blockCount`. */
  bool hasDuplicate(const uint32_t* ids, size_t count, uint64_t blockCount);
  /** Whether any two byte ranges share a byte. None wraps. */
  bool hasOverlap(const PlanSide& side);

 private:
  struct Range {
    uint64_t start;
    uint64_t end;
  };
  std::vector<uint32_t> stamps_;
  uint32_t stamp_ = 0;
  std::vector<Range> ranges_;
};

/** Bounds of one side; for the destination also that no byte is written twice. */
Result checkSide(const PlanSide& side, bool isDestination, PlanScratch& scratch,
                 SideTotals* totals);

/** Both sides, and that they have the same number of bytes. `isRead`: the local side is the
 * destination. */
Result checkPost(const PlanSide& local, const PlanSide& remote, bool isRead, PlanScratch& scratch,
                 uint64_t* bytes);

struct CopyDescriptor {
  uint64_t local;
  uint64_t remote;
  uint64_t bytes;
  /** Numbers of BlockRegion::registration; only pieces of one registration are merged. */
  uint32_t localRegistration;
  uint32_t remoteRegistration;
};

struct TransferPlan {
  /** Sorted by local address, merged. */
  std::vector<CopyDescriptor> descriptors;
  /** Pieces after pairing: for equal block sizes, blocks times regions. */
  uint64_t descriptorsBeforeMerge = 0;
  uint64_t bytes = 0;
};

/** Only for sides that passed `checkPost`. Reuses the storage of `plan`. */
void buildPlan(const PlanSide& local, const PlanSide& remote, TransferPlan* plan);

}  // namespace kvferry
