// The agent over the fake: transfers from post to final status.
#include <algorithm>
#include <cstring>
#include <limits>

#include "agent_fixture.h"

using namespace fixture;

TEST("agent: a read moves exactly its blocks, and the completion tells") {
  freshFake();
  Pair pair("read");
  const uint64_t handle = Post(pair, Direction::kRead, {3, 4, 9}, {7, 8, 1}).mustTo(pair.a);
  const TransferCompletion done = pair.a.awaitFinal(handle);
  CHECK(done.outcome == TransferOutcome::kDone);
  CHECK(done.result.ok());
  CHECK_EQ(done.bytes, 6 * Pair::kBlockBytes);
  CHECK_EQ(done.descriptorsBeforeMerge, 6u);
  CHECK_EQ(done.descriptorsAfterMerge, 4u);
  CHECK_EQ(done.peer, "read-b");
  CHECK(done.queuedUs >= 0 && done.postUs > 0 && done.wireUs >= 0);
  for (uint64_t r = 0; r < 2; r++) {
    for (uint64_t block = 0; block < Pair::kBlocks; block++) {
      const uint64_t from = block == 3 ? 7 : block == 4 ? 8 : 1;
      const bool isMoved = block == 3 || block == 4 || block == 9;
      const uint64_t expected = isMoved ? 128 + 16 * r + from : 16 * r + block;
      CHECK(isAll(pair.blockA(r, block), static_cast<uint8_t>(expected)));
      CHECK(isAll(pair.blockB(r, block), static_cast<uint8_t>(128 + 16 * r + block)));
    }
  }
  CHECK_EQ(pair.a->counters().transfersDone, 1u);
  CHECK_EQ(pair.a->counters().transfersOpen, 0u);
  CHECK_EQ(pair.a->counters().bytesMoved, 6 * Pair::kBlockBytes);
}

TEST("agent: a write arrives, and its notification after it") {
  const Fake& fake = freshFake();
  Pair pair("write");
  fake.set("delay_us", 3'000);
  pair.b->expectNotifications(true);
  const std::string text("done\0\xff 1", 8);
  const uint64_t handle =
      Post(pair, Direction::kWrite, {0, 1}, {5, 4}).notification(text).mustTo(pair.a);
  const NotificationMessage got = pair.b.awaitNotification();
  CHECK_EQ(got.from, "write-a");
  CHECK(std::string(got.message.begin(), got.message.end()) == text);
  CHECK(isAll(pair.blockB(0, 5), 0) && isAll(pair.blockB(1, 4), 17));
  const TransferCompletion done = pair.a.awaitFinal(handle);
  CHECK(done.outcome == TransferOutcome::kDone);
  CHECK(done.wireUs >= 3'000);
  CHECK(done.postUs < done.wireUs);
}

TEST("agent: regions that touch but are registered apart are not merged into one descriptor") {
  freshFake();
  Pair pair("apart");
  const auto memory = allocate(2 * 4'096);
  const uint64_t first = pair.a.registerRegion(memory, 0, 4'096);
  const uint64_t second = pair.a.registerRegion(memory, 4'096, 4'096);
  REQUIRE(pair.a
              ->declareBlockTable({{first, 0, 4'096, 4'096, 1}, {second, 0, 4'096, 4'096, 1}},
                                  &pair.tableA)
              .ok());
  Post post(pair, Direction::kRead, {0}, {});
  const uint32_t regions[] = {0};
  const double offsets[] = {0};
  const double lengths[] = {8'192};
  PostView view = post.view();
  view.remote = {pair.remoteTable, true, 1, nullptr, regions, offsets, lengths};
  uint64_t handle = 0;
  REQUIRE(pair.a->postAll(&view, 1, false, &handle).ok());
  const TransferCompletion done = pair.a.awaitFinal(handle);
  CHECK(done.outcome == TransferOutcome::kDone);
  CHECK_EQ(done.descriptorsAfterMerge, 2u);
  CHECK_EQ(memory->data()[8'191], 129u);
}

TEST("agent: segments that are no safe integers are refused") {
  freshFake();
  Pair pair("unsafe");
  const uint32_t regions[] = {0};
  const Post post(pair, Direction::kRead, {0}, {});
  for (const double bad :
       {-1.0, 0.5, 1e300, 9'007'199'254'740'992.0, -0.5, std::numeric_limits<double>::quiet_NaN(),
        std::numeric_limits<double>::infinity()}) {
    const double offsets[] = {bad};
    const double lengths[] = {8'192};
    PostView view = post.view();
    view.remote = {pair.remoteTable, true, 1, nullptr, regions, offsets, lengths};
    uint64_t handle = 0;
    CHECK(pair.a->postAll(&view, 1, false, &handle).status == Status::kOutOfRange);
    const double zero[] = {0};
    const double badLengths[] = {bad};
    view.remote = {pair.remoteTable, true, 1, nullptr, regions, zero, badLengths};
    CHECK(pair.a->postAll(&view, 1, false, &handle).status == Status::kOutOfRange);
  }
}

TEST("agent: one bad post in a list, and none is enqueued") {
  const Fake& fake = freshFake();
  Pair pair("none");
  const Post good(pair, Direction::kRead, {1}, {1});
  const Post bad(pair, Direction::kRead, {1}, {16});
  const PostView views[] = {good.view(), good.view(), bad.view()};
  uint64_t handles[3] = {};
  const Result refused = pair.a->postAll(views, 3, false, handles);
  CHECK(refused.status == Status::kOutOfRange);
  CHECK_EQ(refused.value, 2u);
  CHECK_EQ(pair.a->counters().transfersOpen, 0u);
  CHECK(pair.a->releaseBlockTable(pair.tableA).ok());
  CHECK(pair.a.close().result.ok());
  CHECK_EQ(fake.count("posts"), 0);
  CHECK(pair.a.events.transfers.empty());
}

TEST("agent: handles that are stale, foreign or of another kind are refused") {
  freshFake();
  Pair pair("handles");
  Pair other("others");
  const auto statusOf = [&](const std::function<void(PostView&)>& change) {
    const Post post(pair, Direction::kRead, {1}, {1});
    PostView view = post.view();
    change(view);
    uint64_t handle = 0;
    return pair.a->postAll(&view, 1, false, &handle).status;
  };
  for (const uint64_t wrong : {uint64_t{0}, ~uint64_t{0}, other.peer, pair.tableA, uint64_t{77}}) {
    CHECK(statusOf([&](PostView& view) { view.peer = wrong; }) == Status::kInvalidHandle);
  }
  for (const uint64_t wrong : {uint64_t{0}, pair.peer, other.tableA, pair.remoteTable}) {
    CHECK(statusOf([&](PostView& view) { view.local.table = wrong; }) == Status::kInvalidHandle);
  }
  for (const uint64_t wrong : {uint64_t{0}, pair.tableA, other.remoteTable, pair.regionA}) {
    CHECK(statusOf([&](PostView& view) { view.remote.table = wrong; }) == Status::kInvalidHandle);
  }
  for (const uint64_t wrong : {uint64_t{0}, pair.peer, ~uint64_t{0}}) {
    CHECK(statusOf([&](PostView& view) {
            view.hasFence = true;
            view.fence = wrong;
          }) == Status::kInvalidHandle);
  }
}

TEST("agent: failures of create, post and status end in failed, and everything is given back") {
  const Fake& fake = freshFake();
  const int64_t requests = fake.count("live_requests");
  Pair pair("fail");
  const Post post(pair, Direction::kRead, {1, 2}, {3, 4});
  const auto failing = [&](const char* knob, const char* operation) {
    fake.set(knob, 1);
    const TransferCompletion failed = pair.a.awaitFinal(post.mustTo(pair.a));
    CHECK(failed.outcome == TransferOutcome::kFailed);
    CHECK(failed.result.status == Status::kNixl);
    CHECK_EQ(failed.result.nixl, -2);
    CHECK_EQ(std::string(failed.result.operation), operation);
  };
  failing("fail_create", "create_xfer_req");
  failing("fail_post", "post_xfer_req");
  fake.set("delay_polls", 5);
  failing("fail_status", "get_xfer_status");
  CHECK(pair.a.awaitFinal(post.mustTo(pair.a)).outcome == TransferOutcome::kDone);
  CHECK_EQ(pair.a->counters().transfersFailed, 3u);
  CHECK(pair.a->releaseBlockTable(pair.tableA).ok());
  CHECK_EQ(fake.count("live_requests"), requests);
  CHECK_EQ(fake.count("copies_after_release"), 0);
}

TEST("agent: random transfers both ways end exactly once, with the right bytes") {
  const Fake& fake = freshFake();
  Pair pair("random");
  check::Random random(5);
  std::vector<uint64_t> open;
  uint64_t usedBlocks = 0;
  std::vector<uint8_t> model(pair.memoryA->data(), pair.memoryA->data() + Pair::kBytes);
  for (int round = 0; round < 200; round++) {
    fake.set("delay_us", static_cast<int64_t>(random.below(3) * 150));
    fake.set("delay_polls", static_cast<int64_t>(random.below(2) * 3));
    // Each of those that are open at once to another block: else their order would show.
    auto to = static_cast<uint32_t>(random.below(Pair::kBlocks));
    while ((usedBlocks >> to & 1) != 0) to = (to + 1) % Pair::kBlocks;
    usedBlocks |= uint64_t{1} << to;
    const auto from = static_cast<uint32_t>(random.below(Pair::kBlocks));
    const uint64_t handle = Post(pair, Direction::kRead, {to}, {from}).mustTo(pair.a);
    for (uint64_t r = 0; r < 2; r++) {
      std::memcpy(model.data() + (r * 16 + to) * Pair::kBlockBytes, pair.blockB(r, from),
                  Pair::kBlockBytes);
    }
    open.push_back(handle);
    if (open.size() == 8 || random.below(4) == 0) {
      for (const uint64_t each : open)
        CHECK(pair.a.awaitFinal(each).outcome == TransferOutcome::kDone);
      open.clear();
      usedBlocks = 0;
      CHECK(std::memcmp(model.data(), pair.memoryA->data(), Pair::kBytes) == 0);
      std::memset(pair.memoryA->data(), round, Pair::kBytes);
      std::fill(model.begin(), model.end(), static_cast<uint8_t>(round));
    }
  }
  for (const uint64_t each : open) CHECK(pair.a.awaitFinal(each).outcome == TransferOutcome::kDone);
  CHECK_EQ(pair.a.events.transfers.size(), 200u);
  CHECK_EQ(pair.a->counters().transfersDone, 200u);
}
