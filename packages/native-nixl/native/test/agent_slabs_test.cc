// The path `slabs` over the fake: bytes, credit, deadlines, and peers that die with slabs in use.
#include <chrono>
#include <cstring>

#include "agent_fixture.h"

using namespace fixture;

namespace {

/** Room for three blocks and their list: a post of several takes several slabs. */
constexpr SlabConfig kSlabs{4 * 4'096, 2};
constexpr SlabConfig kOneSlab{4 * 4'096, 1};

std::vector<uint32_t> firstBlocks(uint32_t count, bool isReversed = false) {
  std::vector<uint32_t> ids(count);
  for (uint32_t i = 0; i < count; i++) ids[i] = isReversed ? count - 1 - i : i;
  return ids;
}

void expectReturned(TestAgent& lender) {
  CHECK(lender.waitFor([&] { return lender->counters().slabsLent == 0; }));
}

void mustEnd(TestAgent& agent, const ProcessId& process) {
  Ticket ticket = 0;
  REQUIRE(agent->processEnded(process, &ticket).ok());
  CHECK(agent.await(ticket).result.ok());
}

}  // namespace

TEST("agent by slabs: a write and a read move exactly their blocks, in several slabs") {
  for (const int64_t delayUs : {0, 500}) {
    const Fake& fake = freshFake();
    const int64_t requestsBefore = fake.count("live_requests");
    Pair pair("slabs", kSlabs, kSlabs);
    pair.b->expectNotifications(true);
    fake.set("delay_us", delayUs);
    const uint64_t write = Post(pair, Direction::kWrite, firstBlocks(10), firstBlocks(10, true))
                               .bySlabs()
                               .notification("there")
                               .mustTo(pair.a);
    const TransferCompletion done = pair.a.awaitFinal(write);
    REQUIRE(done.outcome == TransferOutcome::kDone);
    CHECK_EQ(done.bytes, 20 * Pair::kBlockBytes);
    CHECK_EQ(done.descriptorsBeforeMerge, 20u);
    CHECK(done.descriptorsAfterMerge >= 6);
    const NotificationMessage got = pair.b.awaitNotification();
    CHECK(std::string(got.message.begin(), got.message.end()) == "there");
    for (uint64_t region = 0; region < 2; region++) {
      for (uint64_t block = 0; block < Pair::kBlocks; block++) {
        const uint64_t expected = block < 10 ? 16 * region + 9 - block : 128 + 16 * region + block;
        CHECK(isAll(pair.blockB(region, block), expected));
      }
    }
    const uint64_t read = Post(pair, Direction::kRead, firstBlocks(7), firstBlocks(7))
                              .bySlabs()
                              .mustTo(pair.a);
    REQUIRE(pair.a.awaitFinal(read).outcome == TransferOutcome::kDone);
    for (uint64_t block = 0; block < Pair::kBlocks; block++) {
      CHECK(isAll(pair.blockA(1, block), block < 7 ? 16 + 9 - block : 16 + block));
    }
    expectReturned(pair.b);
    CHECK_EQ(pair.a->counters().slabsMoved, pair.b->counters().slabsMoved);
    CHECK(pair.a->counters().slabsMoved >= 10);
    CHECK(pair.a.close().result.ok());
    CHECK(pair.b.close().result.ok());
    CHECK_EQ(fake.count("live_requests"), requestsBefore);
  }
}

TEST("agent by slabs: as many are under way at once as there are, both ways") {
  const auto timeOf = [](Direction direction, const SlabConfig& slabs) {
    const Fake& fake = freshFake();
    Pair pair("depth", slabs, slabs);
    pair.b->expectNotifications(true);
    // So long that nothing else counts.
    fake.set("delay_us", 20'000);
    const auto start = std::chrono::steady_clock::now();
    const uint64_t moved = Post(pair, direction, firstBlocks(12), firstBlocks(12, true))
                               .bySlabs()
                               .mustTo(pair.a);
    REQUIRE(pair.a.awaitFinal(moved).outcome == TransferOutcome::kDone);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  constexpr SlabConfig kFourSlabs{4 * 4'096, 4};
  for (const Direction direction : {Direction::kWrite, Direction::kRead}) {
    const double one = timeOf(direction, kOneSlab);
    const double four = timeOf(direction, kFourSlabs);
    // Eight slabs, one after the other or four at a time: a quarter, and what opens the way.
    CHECK(four < one / 2);
  }
}

TEST("agent by slabs: an agent without, or a peer without, is refused") {
  freshFake();
  for (const bool isOwn : {false, true}) {
    Pair pair("none", isOwn ? kSlabs : SlabConfig{}, isOwn ? SlabConfig{} : kSlabs);
    uint64_t handle = 0;
    const Post post = Post(pair, Direction::kRead, {1}, {1}).bySlabs();
    CHECK(post.to(pair.a, &handle).status == Status::kUnsupported);
    PeerPaths paths{true, true};
    CHECK(pair.a->pathsTo(pair.peer, &paths).ok() && !paths.hasSlabs && !paths.hasIpc);
    Post(pair, Direction::kRead, {1}, {1}).mustTo(pair.a);
  }
}

TEST("agent by slabs: memory that the peer has deregistered is not touched") {
  freshFake();
  Pair pair("gone", kSlabs, kSlabs);
  pair.b->expectNotifications(true);
  REQUIRE(pair.b->releaseBlockTable(pair.tableB).ok());
  Ticket ticket = 0;
  REQUIRE(pair.b->deregisterRegion(pair.regionB, &ticket).ok());
  REQUIRE(pair.b.await(ticket).result.ok());
  for (const Direction direction : {Direction::kWrite, Direction::kRead}) {
    const uint64_t handle = Post(pair, direction, {1}, {2}).bySlabs().mustTo(pair.a);
    const TransferCompletion end = pair.a.awaitFinal(handle);
    CHECK(end.outcome == TransferOutcome::kFailed);
    CHECK(end.result.status == Status::kNixl);
    CHECK(end.result.detail.find("not registered") != std::string::npos);
  }
  CHECK(isAll(pair.blockB(0, 2), 130));
  CHECK(isAll(pair.blockA(0, 1), 1));
  expectReturned(pair.b);
}

TEST("agent by slabs: peers take turns for few slabs") {
  freshFake();
  Pair pair("turns", kSlabs, kOneSlab);
  pair.b->expectNotifications(true);
  TestAgent other("turns-other", kSlabs);
  const uint64_t region = other.registerRegion(pair.memoryA, 0, Pair::kBytes);
  const uint64_t tableOfOther = table(other, region, 2, Pair::kBlockBytes, Pair::kBlocks);
  const uint64_t peer = other.addPeer(pair.b);
  std::vector<uint8_t> exported;
  REQUIRE(pair.b->exportBlockTable(pair.tableB, &exported).ok());
  uint64_t remote = 0;
  REQUIRE(other->importBlockTable(peer, exported.data(), exported.size(), &remote).ok());
  Post first(pair, Direction::kWrite, firstBlocks(8), firstBlocks(8));
  first.bySlabs();
  Post second = first;
  second.fields.peer = peer;
  second.fields.local.table = tableOfOther;
  second.fields.remote.table = remote;
  std::vector<uint64_t> handles[2];
  for (int i = 0; i < 5; i++) {
    handles[0].push_back(first.mustTo(pair.a));
    handles[1].push_back(second.mustTo(other));
  }
  for (const uint64_t handle : handles[0]) {
    CHECK(pair.a.awaitFinal(handle).outcome == TransferOutcome::kDone);
  }
  for (const uint64_t handle : handles[1]) {
    CHECK(other.awaitFinal(handle).outcome == TransferOutcome::kDone);
  }
  expectReturned(pair.b);
}

TEST("agent by slabs: a slab whose WRITE doesn't end is not used again before it did") {
  const Fake& fake = freshFake();
  Pair pair("stuck", kOneSlab, kOneSlab);
  pair.b->expectNotifications(true);
  fake.set("delay_us", 1);
  // The records are read first: these must end.
  const uint64_t warm = Post(pair, Direction::kWrite, {1}, {1}).bySlabs().mustTo(pair.a);
  REQUIRE(pair.a.awaitFinal(warm).outcome == TransferOutcome::kDone);
  fake.set("never_complete", 1);
  const uint64_t stuck =
      Post(pair, Direction::kWrite, {2}, {2}).bySlabs().deadline(20).mustTo(pair.a);
  pair.a.awaitOverdue(stuck);
  const uint64_t behind = Post(pair, Direction::kWrite, {3}, {3}).bySlabs().mustTo(pair.a);
  CHECK_EQ(pair.a->counters().transfersOpen, 2u);
  CHECK_EQ(pair.a->counters().transfersDraining, 1u);
  CHECK(pair.a->releaseBlockTable(pair.tableA).status == Status::kBusy);
  fake.set("complete_all", 1);
  CHECK(pair.a.awaitFinal(stuck).outcome == TransferOutcome::kDone);
  CHECK(pair.a.awaitFinal(behind).outcome == TransferOutcome::kDone);
  CHECK_EQ(pair.a->counters().transfersDraining, 0u);
  CHECK(isAll(pair.blockB(0, 2), 2) && isAll(pair.blockB(1, 3), 19));
}

TEST("agent by slabs: a peer that never answers leaves a write overdue until it is proven dead") {
  const Fake& fake = freshFake();
  Pair pair("silent", kSlabs, kSlabs);
  pair.b->expectNotifications(true);
  const uint64_t warm = Post(pair, Direction::kWrite, {1}, {1}).bySlabs().mustTo(pair.a);
  REQUIRE(pair.a.awaitFinal(warm).outcome == TransferOutcome::kDone);
  fake.set("drop_transfer_notifications", 1);  // the slab arrives, its message doesn't
  const uint64_t lost =
      Post(pair, Direction::kWrite, {2}, {2}).bySlabs().deadline(20).mustTo(pair.a);
  pair.a.awaitOverdue(lost);
  CHECK_EQ(pair.a.completionCount(lost), 1u);
  CHECK(pair.b.waitFor([&] { return pair.b->counters().slabsLent > 0; }));
  ProcessId stranger = ownProcess();
  stranger.startTime += 1;
  mustEnd(pair.a, stranger);
  pair.a.drain();
  CHECK_EQ(pair.a.completionCount(lost), 1u);
  mustEnd(pair.a, ownProcess());
  CHECK(pair.a.awaitFinal(lost).outcome == TransferOutcome::kFailed);
  CHECK(isAll(pair.blockB(0, 2), 130));
}

TEST("agent by slabs: what a dead borrower held returns to service, and it is not heard any more") {
  const Fake& fake = freshFake();
  Pair pair("borrower", kSlabs, kSlabs);
  pair.b->expectNotifications(true);
  const uint64_t warm = Post(pair, Direction::kWrite, {1}, {1}).bySlabs().mustTo(pair.a);
  REQUIRE(pair.a.awaitFinal(warm).outcome == TransferOutcome::kDone);
  fake.set("drop_transfer_notifications", 1);
  const uint64_t lost =
      Post(pair, Direction::kWrite, {2}, {2}).bySlabs().deadline(20).mustTo(pair.a);
  pair.a.awaitOverdue(lost);
  CHECK(pair.b.waitFor([&] { return pair.b->counters().slabsLent > 0; }));
  mustEnd(pair.b, ownProcess());
  CHECK(pair.b.waitFor([&] { return pair.b->counters().slabsLent == 0; }));
  // The borrower reads that it has nothing any more: so nothing of its transfer is open.
  CHECK(pair.a.awaitFinal(lost).outcome == TransferOutcome::kFailed);
  const uint64_t late =
      Post(pair, Direction::kWrite, {4}, {4}).bySlabs().deadline(20).mustTo(pair.a);
  pair.a.awaitOverdue(late);
  CHECK_EQ(pair.b->counters().slabsLent, 0u);
  CHECK(isAll(pair.blockB(0, 4), 132));
}

TEST("agent by slabs: a peer that is gone fails what only waits, and a removed one gets its slabs") {
  freshFake();
  Pair pair("removed", kSlabs, kSlabs);
  pair.b->expectNotifications(true);
  const uint64_t done = Post(pair, Direction::kWrite, {1}, {1}).bySlabs().mustTo(pair.a);
  REQUIRE(pair.a.awaitFinal(done).outcome == TransferOutcome::kDone);
  Ticket ticket = 0;
  REQUIRE(pair.a->removePeer(pair.peer, &ticket).ok());
  REQUIRE(pair.a.await(ticket).result.ok());
  expectReturned(pair.b);
  Pair gone("dead", kSlabs, kSlabs);
  gone.b.destroy();
  for (const Direction direction : {Direction::kWrite, Direction::kRead}) {
    const uint64_t handle = Post(gone, direction, {1}, {2}).bySlabs().mustTo(gone.a);
    CHECK(gone.a.awaitFinal(handle).outcome == TransferOutcome::kFailed);
  }
  CHECK(gone.a.close().result.ok());
}
