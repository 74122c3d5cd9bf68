#include "../handle_table.h"

#include "check.h"

using namespace kvferry;

TEST("handle table: a handle finds its value until it is erased") {
  HandleTable<int> table(HandleKind::kRegion, 8, 5);
  const uint64_t handle = table.insert(42);
  REQUIRE(table.find(handle) != nullptr);
  CHECK_EQ(*table.find(handle), 42);
  CHECK(!table.wasErased(handle));
  CHECK(table.erase(handle));
  CHECK(table.find(handle) == nullptr);
  CHECK(table.wasErased(handle));
  CHECK(!table.erase(handle));
}

TEST("handle table: a reused slot has another handle, and the old one stays stale") {
  HandleTable<int> table(HandleKind::kPeer, 1, 0);
  const uint64_t first = table.insert(1);
  table.erase(first);
  const uint64_t second = table.insert(2);
  CHECK(first != second);
  CHECK(table.find(first) == nullptr);
  CHECK(table.wasErased(first));
  CHECK_EQ(*table.find(second), 2);
  CHECK(!table.wasErased(second));
}

TEST("handle table: full is 0, which is never a handle") {
  HandleTable<int> table(HandleKind::kTable, 2, 1);
  CHECK(table.insert(1) != 0);
  const uint64_t second = table.insert(2);
  CHECK_EQ(table.insert(3), 0u);
  CHECK(table.find(0) == nullptr);
  table.erase(second);
  CHECK(table.insert(3) != 0);
  CHECK(table.isFull());
}

TEST("handle table: handles of another kind or another salt find nothing") {
  HandleTable<int> regions(HandleKind::kRegion, 8, 7);
  HandleTable<int> peers(HandleKind::kPeer, 8, 7);
  HandleTable<int> others(HandleKind::kRegion, 8, 99);
  const uint64_t handle = regions.insert(1);
  peers.insert(2);
  others.insert(3);
  CHECK(peers.find(handle) == nullptr);
  CHECK(others.find(handle) == nullptr);
  CHECK(!peers.wasErased(handle));
  CHECK(!others.wasErased(handle));
}

TEST("handle table: every handle is below 2^53, also when generations wrap") {
  HandleTable<int> table(HandleKind::kFence, 1 << 20, ~uint64_t{0});
  uint64_t handle = table.insert(1);
  for (int i = 0; i < 4; i++) {
    CHECK(handle < (uint64_t{1} << 53));
    CHECK(table.find(handle) != nullptr);
    table.erase(handle);
    CHECK(table.wasErased(handle));
    handle = table.insert(1);
  }
}

TEST("handle table: made-up numbers find nothing") {
  HandleTable<int> table(HandleKind::kTransfer, 16, 3);
  for (int i = 0; i < 16; i++) table.insert(i);
  check::Random random(1);
  for (int i = 0; i < 10'000; i++) {
    const uint64_t madeUp = random.next();
    CHECK(table.find(madeUp) == nullptr || (madeUp >> 20) == ((uint64_t{4} << 30) | 3));
  }
}

TEST("handle table: random inserts and erases equal a model") {
  HandleTable<uint64_t> table(HandleKind::kRegion, 32, 11);
  std::vector<std::pair<uint64_t, uint64_t>> live;
  std::vector<uint64_t> stale;
  check::Random random(2);
  for (uint64_t i = 0; i < 5'000; i++) {
    if (random.below(2) == 0) {
      const uint64_t handle = table.insert(i);
      CHECK_EQ(handle == 0, live.size() == 32);
      if (handle != 0) live.emplace_back(handle, i);
    } else if (!live.empty()) {
      const size_t at = random.below(live.size());
      CHECK(table.erase(live[at].first));
      stale.push_back(live[at].first);
      live.erase(live.begin() + static_cast<long>(at));
    }
    CHECK_EQ(table.size(), live.size());
  }
  for (const auto& [handle, value] : live)
    CHECK(table.find(handle) != nullptr && *table.find(handle) == value);
  for (const uint64_t handle : stale)
    CHECK(table.find(handle) == nullptr && table.wasErased(handle));
}
