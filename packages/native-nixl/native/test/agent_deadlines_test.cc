// The agent over the fake: fences, deadlines, waiting, and the bounds on what is open.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include "agent_fixture.h"

using namespace fixture;
using Clock = std::chrono::steady_clock;

namespace {

/** How often each agent's thread of this process has slept, by the system's count. */
std::map<std::string, uint64_t> sleepsOfAgentThreads() {
  std::map<std::string, uint64_t> sleeps;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream status(task.path() / "status");
    std::string name, field;
    status >> field >> name;
    if (name != "kvferry-nixl") continue;
    uint64_t count = 0;
    while (status >> field && field != "voluntary_ctxt_switches:") continue;
    status >> count;
    sleeps[task.path().filename()] = count;
  }
  return sleeps;
}

}  // namespace

TEST("agent: overdue once, pinned until the final status, which comes once") {
  const Fake& fake = freshFake();
  Pair pair("overdue");
  fake.set("never_complete", 1);
  const uint64_t handle = Post(pair, Direction::kRead, {1}, {1}).deadline(400).mustTo(pair.a);
  const TransferCompletion overdue = pair.a.awaitOverdue(handle);
  CHECK(overdue.result.status == Status::kDeadline);
  CHECK_EQ(overdue.result.value, 400u);
  CHECK_EQ(pair.a->counters().transfersDraining, 1u);
  CHECK_EQ(pair.a->counters().transfersOpen, 1u);
  Ticket ticket = 0;
  CHECK(pair.a->releaseBlockTable(pair.tableA).status == Status::kBusy);
  CHECK(pair.a->releaseBlockTable(pair.remoteTable).status == Status::kBusy);
  CHECK(pair.a->deregisterRegion(pair.regionA, &ticket).status == Status::kBusy);
  CHECK(pair.memoryA->free().status == Status::kBusy);
  // Other transfers go on meanwhile.
  CHECK(pair.a.awaitFinal(Post(pair, Direction::kRead, {2}, {2}).mustTo(pair.a)).outcome ==
        TransferOutcome::kDone);
  CHECK_EQ(pair.a.completionCount(handle), 1u);
  // It still counts as in flight.
  const Post post(pair, Direction::kRead, {2}, {2});
  const std::vector<PostView> most(limits::kTransfersInFlightMax, post.view());
  std::vector<uint64_t> handles(most.size());
  CHECK(pair.a->postAll(most.data(), most.size(), false, handles.data()).status == Status::kLimit);
  fake.set("complete_all", 1);
  CHECK(pair.a.awaitFinal(handle).outcome == TransferOutcome::kDone);
  CHECK(isAll(pair.blockA(0, 1), 129));
  CHECK_EQ(pair.a.completionCount(handle), 2u);
  CHECK_EQ(pair.a->counters().transfersDraining, 0u);
  CHECK(pair.a->releaseBlockTable(pair.tableA).ok());
  CHECK(pair.a->deregisterRegion(pair.regionA, &ticket).ok());
  CHECK(pair.a.await(ticket).result.ok());
  CHECK(pair.memoryA->free().ok());
  CHECK_EQ(fake.count("copies_after_release"), 0);
}

TEST("agent: too many transfers past their deadline, and posts are refused") {
  const Fake& fake = freshFake();
  Pair pair("draining");
  fake.set("never_complete", 1'000'000);
  const Post post = Post(pair, Direction::kRead, {1}, {1}).deadline(400);
  const std::vector<PostView> views(limits::kDrainingTransferCountMax, post.view());
  std::vector<uint64_t> handles(views.size());
  // Those that the thread reaches after their deadline are never posted: fill up until it is full.
  REQUIRE(pair.a.waitFor([&] {
    const uint64_t draining = pair.a->counters().transfersDraining;
    if (draining == limits::kDrainingTransferCountMax) return true;
    if (pair.a->counters().transfersOpen > draining) return false;
    const size_t count = std::min<size_t>(256, limits::kDrainingTransferCountMax - draining);
    REQUIRE(pair.a->postAll(views.data(), count, true, handles.data()).ok());
    return false;
  }, 60'000));
  uint64_t handle = 0;
  const Result refused = post.to(pair.a, &handle);
  CHECK(refused.status == Status::kLimit);
  CHECK_EQ(std::string(refused.limit), "drainingTransferCountMax");
  fake.set("never_complete", 0);
  fake.set("complete_all", 1);
  REQUIRE(pair.a.waitFor([&] { return pair.a->counters().transfersOpen == 0; }));
  CHECK(pair.a.awaitFinal(Post(pair, Direction::kRead, {1}, {1}).mustTo(pair.a)).outcome ==
        TransferOutcome::kDone);
}

TEST("agent: nothing moves before the fence, later posts aren't held") {
  const Fake& fake = freshFake();
  const int64_t requests = fake.count("live_requests");
  Pair pair("fence");
  uint64_t fence = 0;
  REQUIRE(pair.a->createFence(&fence).ok());
  const uint64_t held = Post(pair, Direction::kRead, {1}, {1}).after(fence).mustTo(pair.a);
  const uint64_t free = Post(pair, Direction::kRead, {2}, {2}).mustTo(pair.a);
  CHECK(pair.a.awaitFinal(free).outcome == TransferOutcome::kDone);
  CHECK_EQ(fake.count("posts"), 1);
  // Its request waits with it: what is left to do when the fence opens is to post it.
  CHECK_EQ(fake.count("live_requests"), requests + 1);
  CHECK(isAll(pair.blockA(0, 1), 1));
  pair.blockB(0, 1)[0] = 99;
  CHECK(pair.a->signalFence(fence).ok());
  CHECK(pair.a.awaitFinal(held).outcome == TransferOutcome::kDone);
  CHECK_EQ(pair.blockA(0, 1)[0], 99u);
  CHECK(pair.a->signalFence(fence).ok());
  CHECK(pair.a->signalFence(fence + 1).status == Status::kInvalidHandle);
  CHECK(pair.a.awaitFinal(Post(pair, Direction::kRead, {3}, {3}).after(fence).mustTo(pair.a))
            .outcome == TransferOutcome::kDone);
}

TEST("agent: a fence whose moment was said beforehand opens then, by the agent's thread") {
  // Longer than anything that keeps the thread polling for another reason.
  constexpr uint64_t kDelayUs = 1'000 * (limits::kFlushMs + 100);
  freshFake();
  Pair pair("moment");
  uint64_t fence = 0;
  REQUIRE(pair.a->createFence(&fence).ok());
  const uint64_t before = Post(pair, Direction::kRead, {1}, {1}).after(fence).mustTo(pair.a);
  CHECK(pair.a->signalFence(fence, 1'000 * limits::kFenceDelayMsMax).ok());
  CHECK(pair.a->signalFence(fence, kDelayUs).ok());
  // The earliest counts, also for posts that come after it was said.
  CHECK(pair.a->signalFence(fence, 1'000 * limits::kFenceDelayMsMax).ok());
  const uint64_t after = Post(pair, Direction::kRead, {2}, {2}).after(fence).mustTo(pair.a);
  const TransferCompletion done = pair.a.awaitFinal(before);
  CHECK(done.outcome == TransferOutcome::kDone);
  CHECK(done.queuedUs >= static_cast<double>(kDelayUs));
  CHECK(done.prepareUs <= done.postUs);
  CHECK(pair.a.awaitFinal(after).outcome == TransferOutcome::kDone);
  CHECK(pair.a->signalFence(fence, 1).ok());
  CHECK(pair.a->signalFence(fence, 1'000 * limits::kFenceDelayMsMax + 1).status ==
        Status::kOutOfRange);
}

TEST("agent: a fence that no post waits for lets the thread sleep") {
  freshFake();
  const auto before = sleepsOfAgentThreads();
  TestAgent agent("fences");
  uint64_t fence = 0;
  // It looks at things for a while after its start.
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const auto asleep = sleepsOfAgentThreads();
  CHECK_EQ(asleep.size(), before.size() + 1);
  for (uint64_t delayUs : {uint64_t{0}, uint64_t{100}}) {
    REQUIRE(agent->createFence(&fence).ok());
    REQUIRE(agent->signalFence(fence, delayUs).ok());
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  const auto after = sleepsOfAgentThreads();
  for (const auto& [thread, count] : asleep) {
    if (before.count(thread) == 0) CHECK_EQ(after.at(thread), count);
  }
}

TEST("agent: what can't be prepared while it waits is tried again and told when its fence opens") {
  const Fake& fake = freshFake();
  const int64_t requests = fake.count("live_requests");
  Pair pair("unprepared");
  uint64_t fence = 0;
  REQUIRE(pair.a->createFence(&fence).ok());
  fake.set("fail_create", 3);
  const uint64_t first = Post(pair, Direction::kRead, {1}, {1}).after(fence).mustTo(pair.a);
  const uint64_t second = Post(pair, Direction::kRead, {2}, {2}).after(fence).mustTo(pair.a);
  // Taken in order, so both have been looked at.
  CHECK(pair.a.awaitFinal(Post(pair, Direction::kRead, {3}, {3}).mustTo(pair.a)).outcome ==
        TransferOutcome::kFailed);
  CHECK_EQ(pair.a.completionCount(first) + pair.a.completionCount(second), 0u);
  fake.set("fail_create", 1);
  CHECK(pair.a->signalFence(fence).ok());
  const TransferCompletion failed = pair.a.awaitFinal(first);
  CHECK(failed.outcome == TransferOutcome::kFailed);
  CHECK_EQ(std::string(failed.result.operation), "create_xfer_req");
  CHECK(pair.a.awaitFinal(second).outcome == TransferOutcome::kDone);
  CHECK_EQ(fake.count("live_requests"), requests);
}

TEST("agent: what was prepared and never posted is given back") {
  const Fake& fake = freshFake();
  const int64_t requests = fake.count("live_requests");
  const int64_t options = fake.count("live_options");
  Pair pair("unposted");
  uint64_t fence = 0;
  REQUIRE(pair.a->createFence(&fence).ok());
  const Post post = Post(pair, Direction::kWrite, {1}, {1}).after(fence).notification("done").deadline(1);
  CHECK(pair.a.awaitFinal(post.mustTo(pair.a)).result.status == Status::kDeadline);
  CHECK_EQ(fake.count("live_requests"), requests);
  CHECK_EQ(fake.count("live_options"), options);
  CHECK_EQ(fake.count("posts"), 0);
}

TEST("agent: fences whose moment is over make room, whether anything waited or not") {
  freshFake();
  Pair pair("moments");
  uint64_t fence = 0;
  for (uint64_t i = 0; i < limits::kFenceCountMax; i++) {
    REQUIRE(pair.a->createFence(&fence).ok());
    REQUIRE(pair.a->signalFence(fence, 1).ok());
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  for (uint64_t i = 0; i < limits::kFenceCountMax; i++) {
    REQUIRE(pair.a->createFence(&fence).ok());
  }
  CHECK(pair.a->createFence(&fence).status == Status::kLimit);
}

TEST("agent: still behind its fence at the deadline: failed for good, never posted") {
  // Longer than anything that keeps the thread polling for another reason.
  constexpr uint64_t kDeadlineMs = limits::kFlushMs + 100;
  const Fake& fake = freshFake();
  Pair pair("expired");
  uint64_t fence = 0;
  REQUIRE(pair.a->createFence(&fence).ok());
  const uint64_t handle =
      Post(pair, Direction::kRead, {1}, {1}).after(fence).deadline(kDeadlineMs).mustTo(pair.a);
  const TransferCompletion failed = pair.a.awaitFinal(handle);
  CHECK(failed.outcome == TransferOutcome::kFailed);
  CHECK(failed.result.status == Status::kDeadline);
  CHECK(failed.queuedUs >= 1e3 * kDeadlineMs);
  CHECK_EQ(failed.wireUs, 0.0);
  CHECK(pair.a->signalFence(fence).ok());
  CHECK(pair.a.close().result.ok());
  CHECK_EQ(fake.count("posts"), 0);
  CHECK_EQ(pair.a.completionCount(handle), 1u);
}

TEST("agent: waiting until posted takes as long as the post, at most until the deadline") {
  const Fake& fake = freshFake();
  Pair pair("inline");
  fake.set("block_post_us", 20'000);
  const auto before = Clock::now();
  const uint64_t handle = Post(pair, Direction::kRead, {1}, {1}).mustTo(pair.a, true);
  CHECK(Clock::now() - before >= std::chrono::milliseconds(20));
  CHECK_EQ(fake.count("posts"), 1);
  CHECK(pair.a.awaitFinal(handle).outcome == TransferOutcome::kDone);
  // The first occupies the thread for longer than the second may take.
  fake.set("block_post_us", 1'500'000);
  const uint64_t first = Post(pair, Direction::kRead, {1}, {1}).mustTo(pair.a);
  const uint64_t second = Post(pair, Direction::kRead, {2}, {2}).deadline(30).mustTo(pair.a, true);
  CHECK_EQ(fake.count("posts"), 1);
  CHECK(pair.a.awaitFinal(first).outcome == TransferOutcome::kDone);
  const TransferCompletion late = pair.a.awaitFinal(second);
  CHECK(late.outcome == TransferOutcome::kFailed);
  CHECK(late.result.status == Status::kDeadline);
  CHECK_EQ(fake.count("posts"), 2);
  // A fence that only the waiting thread could signal is not waited for.
  fake.set("block_post_us", 0);
  uint64_t fence = 0;
  REQUIRE(pair.a->createFence(&fence).ok());
  const uint64_t held = Post(pair, Direction::kRead, {3}, {3}).after(fence).mustTo(pair.a, true);
  REQUIRE(pair.a->signalFence(fence).ok());
  CHECK(pair.a.awaitFinal(held).outcome == TransferOutcome::kDone);
}

TEST("agent: transfers in flight are bounded until their completions are drained") {
  freshFake();
  Pair pair("bound");
  uint64_t fence = 0;
  REQUIRE(pair.a->createFence(&fence).ok());
  const Post post = Post(pair, Direction::kRead, {1}, {1}).after(fence);
  const std::vector<PostView> views(limits::kTransfersInFlightMax + 1, post.view());
  std::vector<uint64_t> handles(views.size());
  const Result refused = pair.a->postAll(views.data(), views.size(), false, handles.data());
  CHECK(refused.status == Status::kLimit);
  CHECK_EQ(std::string(refused.limit), "transfersInFlightMax");
  CHECK_EQ(pair.a->counters().transfersOpen, 0u);
  REQUIRE(pair.a->postAll(views.data(), views.size() - 1, false, handles.data()).ok());
  CHECK(pair.a->postAll(views.data(), 1, false, handles.data()).status == Status::kLimit);
  REQUIRE(pair.a->signalFence(fence).ok());
  REQUIRE(pair.a.waitFor([&] { return pair.a.events.transfers.size() == views.size() - 1; }));
  REQUIRE(pair.a->postAll(views.data(), 1, false, handles.data()).ok());
  CHECK(pair.a.awaitFinal(handles[0]).outcome == TransferOutcome::kDone);
}
