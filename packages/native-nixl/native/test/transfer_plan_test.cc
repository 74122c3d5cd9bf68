#include "../transfer_plan.h"

#include <algorithm>
#include <map>

#include "../limits.h"
#include "check.h"

using namespace kvferry;

namespace {

BlockTable tableOf(std::vector<BlockRegion> regions) {
  BlockTable table;
  REQUIRE(makeBlockTable(std::move(regions), &table).ok());
  return table;
}

/** A side with its own storage. */
struct Side {
  const BlockTable* table = nullptr;
  bool isSegments = false;
  std::vector<uint32_t> ids;
  std::vector<uint64_t> offsets;
  std::vector<uint64_t> lengths;

  PlanSide view() const {
    return {table, isSegments, ids.size(), ids.data(), ids.data(), offsets.data(), lengths.data()};
  }
};

Side blocks(const BlockTable& table, std::vector<uint32_t> ids) {
  Side side;
  side.table = &table;
  side.ids = std::move(ids);
  return side;
}

Side segments(const BlockTable& table, std::vector<uint32_t> regions, std::vector<uint64_t> offsets,
              std::vector<uint64_t> lengths) {
  Side side;
  side.table = &table;
  side.isSegments = true;
  side.ids = std::move(regions);
  side.offsets = std::move(offsets);
  side.lengths = std::move(lengths);
  return side;
}

Status checkedOf(const Side& local, const Side& remote, bool isRead = true) {
  PlanScratch scratch;
  uint64_t bytes = 0;
  return checkPost(local.view(), remote.view(), isRead, scratch, &bytes).status;
}

TransferPlan planOf(const Side& local, const Side& remote) {
  TransferPlan plan;
  buildPlan(local.view(), remote.view(), &plan);
  return plan;
}

/** The model: a side as the list of its byte addresses. */
std::vector<uint64_t> addressesOf(const Side& side) {
  std::vector<uint64_t> addresses;
  const auto add = [&](uint64_t start, uint64_t bytes) {
    for (uint64_t i = 0; i < bytes; i++) addresses.push_back(start + i);
  };
  if (side.isSegments) {
    for (size_t i = 0; i < side.ids.size(); i++) {
      add(side.table->regions[side.ids[i]].address + side.offsets[i], side.lengths[i]);
    }
    return addresses;
  }
  for (const BlockRegion& region : side.table->regions) {
    for (const uint32_t id : side.ids) {
      add(region.address + id * region.blockStrideBytes, region.blockSizeBytes);
    }
  }
  return addresses;
}

/** Cuts segments off the end until the side has at most `bytes`. */
void trim(Side& side, uint64_t bytes) {
  uint64_t total = 0;
  for (size_t i = 0; i < side.lengths.size(); i++) {
    total += side.lengths[i];
    if (total < bytes) continue;
    side.lengths[i] -= total - bytes;
    side.ids.resize(i + 1);
    side.offsets.resize(i + 1);
    side.lengths.resize(i + 1);
  }
}

/** Whether the plan moves exactly the bytes of the model, and no neighbours are left unmerged. */
bool isRight(const TransferPlan& plan, const Side& local, const Side& remote) {
  const auto locals = addressesOf(local);
  const auto remotes = addressesOf(remote);
  std::multimap<uint64_t, uint64_t> expected;
  for (size_t i = 0; i < locals.size(); i++) expected.emplace(locals[i], remotes[i]);
  std::multimap<uint64_t, uint64_t> actual;
  for (const CopyDescriptor& each : plan.descriptors) {
    if (each.bytes == 0) return false;
    for (uint64_t i = 0; i < each.bytes; i++) actual.emplace(each.local + i, each.remote + i);
  }
  const auto sorted = [](const std::multimap<uint64_t, uint64_t>& pairs) {
    std::vector<std::pair<uint64_t, uint64_t>> list(pairs.begin(), pairs.end());
    std::sort(list.begin(), list.end());
    return list;
  };
  return sorted(actual) == sorted(expected) && plan.bytes == locals.size();
}

bool hasUnmergedNeighbours(const TransferPlan& plan) {
  for (size_t i = 1; i < plan.descriptors.size(); i++) {
    const CopyDescriptor& a = plan.descriptors[i - 1];
    const CopyDescriptor& b = plan.descriptors[i];
    if (b.local < a.local) return true;
    if (a.local + a.bytes == b.local && a.remote + a.bytes == b.remote &&
        a.localRegistration == b.localRegistration && a.remoteRegistration == b.remoteRegistration) {
      return true;
    }
  }
  return false;
}

}  // namespace

TEST("plan: neighbours on both sides are merged, whatever their order") {
  const BlockTable local = tableOf({{1 << 20, 64, 64, 32}});
  const BlockTable remote = tableOf({{2 << 20, 64, 64, 32}});
  const auto after = [&](std::vector<uint32_t> from, std::vector<uint32_t> to) {
    const TransferPlan plan = planOf(blocks(local, from), blocks(remote, to));
    CHECK_EQ(plan.descriptorsBeforeMerge, from.size());
    return plan.descriptors.size();
  };
  CHECK_EQ(after({4, 5, 6, 7}, {20, 21, 22, 23}), 1u);
  CHECK_EQ(after({4, 5, 10, 11}, {20, 21, 22, 23}), 2u);
  CHECK_EQ(after({4, 5, 6}, {9, 12, 15}), 3u);
  CHECK_EQ(after({4, 8, 12}, {9, 10, 11}), 3u);
  CHECK_EQ(after({4, 5, 6}, {22, 21, 20}), 3u);
  CHECK_EQ(after({6, 4, 5}, {22, 20, 21}), 1u);
  CHECK_EQ(after({7, 6, 5, 4}, {23, 22, 21, 20}), 1u);
}

TEST("plan: a block-major layout merges over regions, but not over registrations") {
  // Two layers of a block side by side: regions interleave.
  const auto layout = [](uint64_t base, uint64_t second) {
    return std::vector<BlockRegion>{{base, 64, 128, 8, 0}, {base + 64, 64, 128, 8, second}};
  };
  const BlockTable local = tableOf(layout(1 << 20, 0));
  const BlockTable remote = tableOf(layout(2 << 20, 0));
  const TransferPlan merged = planOf(blocks(local, {1, 2, 3}), blocks(remote, {5, 6, 7}));
  CHECK_EQ(merged.descriptorsBeforeMerge, 6u);
  CHECK_EQ(merged.descriptors.size(), 1u);
  const BlockTable split = tableOf(layout(2 << 20, 1));
  CHECK_EQ(planOf(blocks(local, {1, 2, 3}), blocks(split, {5, 6, 7})).descriptors.size(), 6u);
}

TEST("plan: sides of different block sizes are paired as streams") {
  const BlockTable big = tableOf({{1 << 20, 96, 128, 8}});
  const BlockTable small = tableOf({{2 << 20, 32, 64, 32}});
  const Side local = blocks(big, {2, 1});
  const Side remote = blocks(small, {9, 3, 4, 20, 0, 7});
  CHECK(checkedOf(local, remote) == Status::kOk);
  const TransferPlan plan = planOf(local, remote);
  CHECK_EQ(plan.descriptorsBeforeMerge, 6u);
  CHECK(isRight(plan, local, remote));
}

TEST("plan: what is wrong is refused") {
  const BlockTable table = tableOf({{1 << 20, 64, 128, 16}, {2 << 20, 64, 128, 16}});
  const BlockTable other = tableOf({{4 << 20, 64, 128, 16}, {5 << 20, 64, 128, 16}});
  const Side good = blocks(other, {0, 1});
  CHECK(checkedOf(blocks(table, {3, 4}), good) == Status::kOk);
  CHECK(checkedOf(blocks(table, {}), blocks(other, {})) == Status::kOutOfRange);
  CHECK(checkedOf(blocks(table, {16, 1}), good) == Status::kOutOfRange);
  CHECK(checkedOf(blocks(table, {0, 0xFFFFFFFF}), good) == Status::kOutOfRange);
  CHECK(checkedOf(blocks(table, {3}), good) == Status::kOutOfRange);
  CHECK(checkedOf(blocks(table, {3, 3}), good) == Status::kOutOfRange);
  CHECK(checkedOf(blocks(table, {3, 3}), good, false) == Status::kOk);
  CHECK(checkedOf(good, blocks(table, {3, 3}), false) == Status::kOutOfRange);
  CHECK(checkedOf(good, blocks(table, {3, 3}), true) == Status::kOk);
}

TEST("plan: wrong segments are refused") {
  const BlockTable table = tableOf({{1 << 20, 64, 128, 16}, {2 << 20, 64, 128, 16}});
  const BlockTable other = tableOf({{4 << 20, 1'024, 1'024, 16}});
  const uint64_t span = 15 * 128 + 64;
  const auto one = [&](uint32_t region, uint64_t offset, uint64_t length) {
    const uint64_t remoteLength = length == 0 || length > 16'384 ? 1 : length;
    return checkedOf(segments(table, {region}, {offset}, {length}),
                     segments(other, {0}, {0}, {remoteLength}));
  };
  CHECK(one(0, 0, span) == Status::kOk);
  CHECK(one(1, span - 1, 1) == Status::kOk);
  CHECK(one(0, 1, span) == Status::kOutOfRange);
  CHECK(one(0, span, 1) == Status::kOutOfRange);
  CHECK(one(2, 0, 1) == Status::kOutOfRange);
  CHECK(one(0, 0, 0) == Status::kOutOfRange);
  CHECK(one(0, ~uint64_t{0}, 2) == Status::kOutOfRange);
  CHECK(one(0, 2, ~uint64_t{0}) == Status::kOutOfRange);
  const Side remote = segments(other, {0}, {0}, {200});
  CHECK(checkedOf(segments(table, {0, 0}, {0, 100}, {100, 100}), remote) == Status::kOk);
  CHECK(checkedOf(segments(table, {0, 0}, {100, 0}, {100, 100}), remote) == Status::kOk);
  CHECK(checkedOf(segments(table, {0, 0}, {0, 99}, {100, 100}), remote) == Status::kOutOfRange);
  CHECK(checkedOf(segments(table, {0, 0}, {99, 0}, {100, 100}), remote) == Status::kOutOfRange);
  CHECK(checkedOf(segments(table, {0, 0}, {0, 99}, {100, 100}), remote, false) == Status::kOk);
}

TEST("plan: limits hold, one past them is refused") {
  const BlockTable table = tableOf({{1 << 20, 8, 8, limits::kBlocksPerPostMax + 1}});
  std::vector<uint32_t> ids(limits::kBlocksPerPostMax + 1);
  for (size_t i = 0; i < ids.size(); i++) ids[i] = static_cast<uint32_t>(i);
  CHECK(checkedOf(blocks(table, ids), blocks(table, ids)) == Status::kLimit);
  ids.pop_back();
  CHECK(checkedOf(blocks(table, ids), blocks(table, ids)) == Status::kOk);
  std::vector<BlockRegion> layers;
  for (uint64_t i = 0; i < 65; i++) {
    layers.push_back({(i + 1) << 30, 8, 8, limits::kBlocksPerPostMax});
  }
  const BlockTable wide = tableOf(layers);
  CHECK(checkedOf(blocks(wide, ids), blocks(wide, ids)) == Status::kLimit);
}

TEST("plan: total lengths that wrap are refused") {
  const BlockTable huge = tableOf({{1, uint64_t{1} << 52, uint64_t{1} << 52, 1}});
  const BlockTable table = tableOf({{1 << 20, 64, 64, 4}});
  std::vector<uint32_t> ids(4'096, 0);
  CHECK(checkedOf(blocks(table, {0}), blocks(huge, ids)) == Status::kOutOfRange);
}

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
          regions.push_back({base + r * size, size, regionCount * size, count, random.below(2) * (r > 0)});
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
          side.ids.push_back(isNext ? (side.ids.back() + 1) % static_cast<uint32_t>(table.blockCount)
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
