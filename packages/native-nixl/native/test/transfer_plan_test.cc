#include "../transfer_plan.h"

#include "../limits.h"
#include "plan_model.h"

using namespace planmodel;

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

TEST("plan: a wrong id is found wherever it stands, in lists of any length and order") {
  constexpr uint32_t kBlocks = 200;
  const BlockTable table = tableOf({{1 << 20, 64, 64, kBlocks}});
  const BlockTable other = tableOf({{4 << 20, 64, 64, kBlocks}});
  for (const uint32_t count : {1, 2, 15, 16, 17, 18, 32, 33, 50, 100}) {
    std::vector<uint32_t> ascending(count);
    for (uint32_t i = 0; i < count; i++) ascending[i] = 2 * i;
    const std::vector<uint32_t> descending(ascending.rbegin(), ascending.rend());
    for (const auto& good : {ascending, descending}) {
      const Side there = blocks(other, good);
      CHECK(checkedOf(blocks(table, good), there) == Status::kOk);
      for (uint32_t at = 0; at < count; at++) {
        const auto with = [&](uint32_t id) {
          std::vector<uint32_t> ids = good;
          ids[at] = id;
          return blocks(table, ids);
        };
        CHECK(checkedOf(with(kBlocks - 1), there) == Status::kOk);
        for (const uint32_t outside : {kBlocks, uint32_t{1} << 31, ~uint32_t{0}}) {
          CHECK(checkedOf(with(outside), there, true) == Status::kOutOfRange);
          CHECK(checkedOf(with(outside), there, false) == Status::kOutOfRange);
        }
        for (uint32_t twice = 0; twice < count; twice++) {
          const Status status = checkedOf(with(good[twice]), there);
          CHECK(status == (twice == at ? Status::kOk : Status::kOutOfRange));
        }
      }
    }
  }
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
