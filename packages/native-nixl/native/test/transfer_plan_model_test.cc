// Random plans against the byte-by-byte model.
#include "plan_model.h"

using namespace planmodel;

TEST("plan: random posts move exactly the bytes of a byte-by-byte model") {
  check::Random random(20);
  PlanScratch scratch;
  TransferPlan plan;
  int accepted = 0;
  int merged = 0;
  for (int round = 0; round < 4'000; round++) {
    const auto randomTable = [&](uint64_t base) {
      const uint64_t regionCount = random.between(1, 4);
      const uint64_t count = random.between(1, 12);
      const uint64_t size = 8 * random.between(1, 3);
      std::vector<BlockRegion> regions;
      if (random.below(3) == 0) {
        // Interleaved: all regions of a block side by side.
        for (uint64_t r = 0; r < regionCount; r++) {
          regions.push_back(
              {base + r * size, size, regionCount * size, count, random.below(2) * (r > 0)});
        }
      } else {
        uint64_t address = base;
        for (uint64_t r = 0; r < regionCount; r++) {
          const uint64_t stride = size + 8 * random.below(2);
          regions.push_back({address, size, stride, count, random.below(r + 1)});
          address += stride * (count - 1) + size + 16 * random.below(2);
        }
      }
      return tableOf(regions);
    };
    const BlockTable localTable = randomTable(1 << 20);
    const BlockTable remoteTable = randomTable(1 << 24);
    const auto randomSide = [&](const BlockTable& table) {
      Side side;
      side.table = &table;
      side.isSegments = random.below(3) == 0;
      const uint64_t count = random.between(1, 6);
      for (uint64_t i = 0; i < count; i++) {
        if (!side.isSegments) {
          const bool isNext = !side.ids.empty() && random.below(2) == 0;
          side.ids.push_back(isNext
                                 ? (side.ids.back() + 1) % static_cast<uint32_t>(table.blockCount)
                                 : static_cast<uint32_t>(random.below(table.blockCount)));
          continue;
        }
        const auto region = static_cast<uint32_t>(random.below(table.regions.size()));
        const uint64_t span = table.regions[region].spanBytes();
        const uint64_t offset = random.below(span);
        side.ids.push_back(region);
        side.offsets.push_back(offset);
        side.lengths.push_back(random.between(1, span - offset));
      }
      return side;
    };
    Side local = randomSide(localTable);
    Side remote = randomSide(remoteTable);
    // Most random pairs differ in length, which is a case of its own; segments can be made to fit.
    if (random.below(8) != 0) {
      if (local.isSegments) trim(local, addressesOf(remote).size());
      if (remote.isSegments) trim(remote, addressesOf(local).size());
    }
    const bool isRead = random.below(2) == 0;
    uint64_t bytes = 0;
    const Result checked = checkPost(local.view(), remote.view(), isRead, scratch, &bytes);

    // The model decides whether the post is legal at all.
    const auto locals = addressesOf(local);
    const auto remotes = addressesOf(remote);
    auto destination = isRead ? locals : remotes;
    std::sort(destination.begin(), destination.end());
    const bool isDoubled =
        std::adjacent_find(destination.begin(), destination.end()) != destination.end();
    const bool isLegal = locals.size() == remotes.size() && !isDoubled;
    CHECK_EQ(checked.ok(), isLegal);
    if (!isLegal || !checked.ok()) continue;
    accepted += 1;
    CHECK_EQ(bytes, locals.size());
    buildPlan(local.view(), remote.view(), &plan);
    CHECK(isRight(plan, local, remote));
    CHECK(!hasUnmergedNeighbours(plan));
    if (plan.descriptors.size() < plan.descriptorsBeforeMerge) merged += 1;
  }
  CHECK(accepted > 200);
  CHECK(merged > 50);
}
