// Slabs cut by arithmetic, and the ranges as a GPU looks them up, against the plain ways.
#include "../slab_stream.h"

#include <set>
#include <vector>

#include "../registered_ranges.h"
#include "../slab_wire.h"
#include "check.h"

using namespace kvferry;

TEST("slab stream: parts cover a stream once, fit with their lists, and leave little room") {
  check::Random random(3);
  for (int round = 0; round < 2'000; round++) {
    const uint64_t block = random.between(1, round % 2 == 0 ? 300 : 40'000);
    const uint64_t bytes = block * random.between(1, 400);
    const uint64_t slab = 8 * random.between(512, 4'096);
    uint64_t start = 0;
    while (start < bytes) {
      const SlabPart part = cutStream(block, start, bytes - start, slab);
      REQUIRE(part.payloadBytes > 0);
      REQUIRE(part.start == start);
      const uint64_t used = alignedSlabBytes(part.payloadBytes) + part.listBytes;
      REQUIRE(used <= slab);
      // The list, as a borrower without a GPU would write it.
      std::vector<SlabPiece> pieces;
      std::vector<bool> starts;
      const uint64_t end = start + part.payloadBytes;
      for (uint64_t at = start; at < end;) {
        const uint64_t next = std::min((at / block + 1) * block, end);
        const uint64_t length = next - at;
        starts.push_back(pieces.empty() || pieces.back().bytes != length);
        pieces.push_back({at, length});
        at = next;
      }
      // Ends that happen to be equal may share a run there, never here.
      uint64_t runs = 0;
      for (const bool isStart : starts) runs += isStart ? 1 : 0;
      REQUIRE(part.runCount >= runs && part.runCount <= kStreamRunsMax);
      REQUIRE(part.listBytes == part.runCount * kSlabRunBytes + pieces.size() * kSlabPieceBytes);
      if (end < bytes) {
        CHECK(used + 128 > slab);
      }
      start = end;
    }
    CHECK_EQ(start, bytes);
  }
}

TEST("slab stream: pairs are counted as two cursors find them") {
  check::Random random(4);
  for (int round = 0; round < 500; round++) {
    const uint64_t one = random.between(1, 60);
    const uint64_t other = random.between(1, 60);
    const uint64_t bytes = one * other * random.between(1, 5);
    std::set<uint64_t> ends;
    for (uint64_t at = one; at <= bytes; at += one) ends.insert(at);
    for (uint64_t at = other; at <= bytes; at += other) ends.insert(at);
    CHECK_EQ(countPairs(bytes, one, other), ends.size());
  }
}

TEST("registered ranges: a GPU's look-up answers as the host's, also for regions in regions") {
  check::Random random(5);
  for (int round = 0; round < 300; round++) {
    RegisteredRanges ranges;
    std::vector<SlabPiece> added;
    for (uint64_t i = random.below(6); i > 0; i--) {
      const SlabPiece range{random.between(1, 200), random.between(1, 80)};
      ranges.add(range.address, range.bytes);
      added.push_back(range);
    }
    const uint64_t version = ranges.version();
    if (!added.empty() && random.below(2) == 0) {
      ranges.remove(added[0].address, added[0].bytes);
      CHECK(ranges.version() != version);
    }
    const std::vector<kernels::AddressRange> list = ranges.forKernel();
    for (int probe = 0; probe < 50; probe++) {
      const SlabPiece piece{random.between(1, 260), random.between(1, 90)};
      bool isFound = false;
      for (const kernels::AddressRange& each : list) {
        if (each.start <= piece.address) isFound = piece.address + piece.bytes <= each.end;
      }
      CHECK_EQ(isFound, ranges.contains(piece));
    }
  }
}
