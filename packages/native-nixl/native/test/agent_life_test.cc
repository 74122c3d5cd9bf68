// The agent over the fake: start, regions and tables, breaking, close and shutdown.
#include <thread>

#include "agent_fixture.h"

using namespace fixture;
using Clock = std::chrono::steady_clock;

TEST("agent: everything that was made is given back at close") {
  const Fake& fake = freshFake();
  const int64_t agents = fake.count("live_agents");
  const int64_t requests = fake.count("live_requests");
  const int64_t lists = fake.count("live_lists");
  {
    Pair pair("tidy");
    pair.b->expectNotifications(true);
    pair.a.awaitFinal(Post(pair, Direction::kWrite, {1}, {1}).notification("x").mustTo(pair.a));
    pair.b.awaitNotification();
    CHECK(pair.a.close().result.ok());
    CHECK(pair.memoryA->free().ok());
    CHECK(pair.b.close().result.ok());
    CHECK_EQ(fake.count("live_agents"), agents);
  }
  CHECK_EQ(fake.count("live_requests"), requests);
  for (const char* name : {"live_options", "live_params"}) CHECK_EQ(fake.count(name), 0);
  // Registrations are lists too; what another case leaked on purpose keeps its own.
  CHECK_EQ(fake.count("live_lists"), lists);
}

TEST("agent: a start that fails is told, and only close remains") {
  const Fake& fake = freshFake();
  for (const char* knob : {"fail_init", "fail_backend"}) {
    fake.set(knob, 1);
    TestAgent agent("unborn");
    CHECK(agent.ready.result.status == Status::kNixl);
    Ticket ticket = 0;
    const auto memory = allocate(4'096);
    CHECK(agent->registerRegion(memory, 0, 4'096, &ticket).status == Status::kBroken);
    CHECK_EQ(memory->pinCount(), 0u);
    CHECK(agent.close().result.ok());
  }
  TestSink sink;
  std::unique_ptr<Agent> agent;
  Ticket ticket = 0;
  for (const std::string& name : {std::string(), std::string(257, 'x'), std::string("a\0b", 3)}) {
    CHECK(Agent::create({name, fakeApi(), {"UCX"}, {}, nullptr}, sink, &agent, &ticket).status ==
          Status::kOutOfRange);
  }
}

TEST(
    "agent: regions outside their memory and freed memory are refused, failures give the pin "
    "back") {
  const Fake& fake = freshFake();
  TestAgent agent("regions");
  const auto memory = allocate(8'192);
  Ticket ticket = 0;
  for (const auto& [offset, length] : {std::pair<uint64_t, uint64_t>{0, 0},
                                       {0, 8'193},
                                       {8'192, 1},
                                       {~uint64_t{0}, 2},
                                       {1, ~uint64_t{0}}}) {
    CHECK(agent->registerRegion(memory, offset, length, &ticket).status == Status::kOutOfRange);
  }
  fake.set("fail_register", 1);
  REQUIRE(agent->registerRegion(memory, 0, 8'192, &ticket).ok());
  const CommandCompletion failed = agent.await(ticket);
  CHECK(failed.result.status == Status::kNixl);
  CHECK(agent->deregisterRegion(failed.handle, &ticket).status == Status::kInvalidHandle);
  CHECK_EQ(memory->pinCount(), 0u);
  const uint64_t region = agent.registerRegion(memory, 0, 8'192);
  CHECK(memory->free().status == Status::kBusy);
  CHECK_EQ(fake.count("registered"), 1);
  REQUIRE(agent->deregisterRegion(region, &ticket).ok());
  Ticket second = 0;
  CHECK(agent->deregisterRegion(region, &second).status == Status::kInvalidHandle);
  CHECK(agent.await(ticket).result.ok());
  CHECK_EQ(fake.count("registered"), 0);
  CHECK(memory->free().ok());
  CHECK(agent->registerRegion(memory, 0, 8'192, &ticket).status == Status::kClosed);
}

TEST("agent: a table keeps its region, and a region outside is refused") {
  freshFake();
  TestAgent agent("tables");
  const auto memory = allocate(8'192);
  const uint64_t region = agent.registerRegion(memory, 0, 8'192);
  uint64_t handle = 0;
  const auto declared = [&](BlockRegionSpec spec) {
    return agent->declareBlockTable({spec}, &handle).status;
  };
  CHECK(declared({region, 1, 4'096, 4'096, 2}) == Status::kOutOfRange);
  CHECK(declared({region, ~uint64_t{0}, 4'096, 4'096, 2}) == Status::kOutOfRange);
  CHECK(declared({region, 0, 4'096, 4'096, 3}) == Status::kOutOfRange);
  CHECK(declared({region + 1, 0, 4'096, 4'096, 2}) == Status::kInvalidHandle);
  CHECK(agent->declareBlockTable({}, &handle).status == Status::kOutOfRange);
  REQUIRE(declared({region, 0, 4'096, 4'096, 2}) == Status::kOk);
  Ticket ticket = 0;
  const Result busy = agent->deregisterRegion(region, &ticket);
  CHECK(busy.status == Status::kBusy);
  CHECK_EQ(busy.value, 1u);
  BlockTableDescription description;
  REQUIRE(agent->describeBlockTable(handle, &description).ok());
  CHECK_EQ(description.blockCount, 2u);
  CHECK(description.blockSizesBytes == std::vector<uint64_t>{4'096});
  CHECK(agent->releaseBlockTable(handle).ok());
  CHECK(agent->releaseBlockTable(handle).ok());
  CHECK(agent->releaseBlockTable(handle + 1).status == Status::kInvalidHandle);
  CHECK(agent->describeBlockTable(handle, &description).status == Status::kInvalidHandle);
  CHECK(agent->deregisterRegion(region, &ticket).ok());
}

TEST("agent: commands in flight are bounded until they are drained") {
  freshFake();
  TestAgent agent("commands");
  Ticket ticket = 0;
  for (uint64_t i = 0; i < limits::kCommandsInFlightMax; i++) {
    REQUIRE(agent->localMetadata(&ticket).ok());
  }
  CHECK(agent->localMetadata(&ticket).status == Status::kLimit);
  REQUIRE(
      agent.waitFor([&] { return agent.events.commands.size() > limits::kCommandsInFlightMax; }));
  CHECK(agent->localMetadata(&ticket).ok());
}

TEST("agent: a library that keeps failing breaks the agent, told once; close still works") {
  const Fake& fake = freshFake();
  Pair pair("broken");
  uint64_t fence = 0;
  REQUIRE(pair.a->createFence(&fence).ok());
  const uint64_t held = Post(pair, Direction::kRead, {1}, {1}).after(fence).mustTo(pair.a);
  fake.set("never_complete", 1);
  const uint64_t open = Post(pair, Direction::kRead, {2}, {2}).mustTo(pair.a);
  fake.set("fail_poll", 1'000'000);
  pair.a->expectNotifications(true);
  REQUIRE(pair.a.waitFor([&] { return pair.a.events.isBroken; }));
  CHECK(pair.a.events.broken.status == Status::kNixl);
  uint64_t handle = 0;
  CHECK(Post(pair, Direction::kRead, {1}, {1}).to(pair.a, &handle).status == Status::kBroken);
  CHECK(pair.a->signalFence(fence).ok());
  CHECK(pair.a.awaitFinal(held).result.status == Status::kBroken);
  fake.set("complete_all", 1);
  CHECK(pair.a.awaitFinal(open).outcome == TransferOutcome::kDone);
  CHECK(pair.a.close().result.ok());
}

TEST("agent: close waits for what is open, refuses what is new, and frees the memory") {
  const Fake& fake = freshFake();
  Pair pair("close");
  fake.set("delay_us", 20'000);
  const uint64_t handle = Post(pair, Direction::kRead, {1}, {1}).mustTo(pair.a);
  Ticket ticket = 0;
  REQUIRE(pair.a->close(10'000, &ticket).ok());
  Ticket second = 0;
  CHECK(pair.a->close(10'000, &second).status == Status::kClosed);
  CHECK(pair.a->localMetadata(&second).status == Status::kClosed);
  uint64_t other = 0;
  CHECK(Post(pair, Direction::kRead, {1}, {1}).to(pair.a, &other).status == Status::kClosed);
  CHECK(pair.a->createFence(&other).status == Status::kClosed);
  const CommandCompletion closed = pair.a.await(ticket);
  CHECK(closed.result.ok());
  CHECK_EQ(closed.leakedTransfers, 0u);
  CHECK_EQ(pair.a.completionCount(handle), 1u);
  CHECK(pair.a.awaitFinal(handle).outcome == TransferOutcome::kDone);
  CHECK(pair.memoryA->free().ok());
  CHECK(pair.a->shutdownNow(1'000));
}

TEST("agent: close at its deadline fails what waits for a fence, and is clean") {
  freshFake();
  Pair pair("held");
  uint64_t fence = 0;
  REQUIRE(pair.a->createFence(&fence).ok());
  const uint64_t handle = Post(pair, Direction::kRead, {1}, {1}).after(fence).mustTo(pair.a);
  const CommandCompletion closed = pair.a.close(20);
  CHECK(closed.result.ok());
  const TransferCompletion failed = pair.a.awaitFinal(handle);
  CHECK(failed.outcome == TransferOutcome::kFailed);
  CHECK(failed.result.status == Status::kClosed);
  CHECK(pair.memoryA->free().ok());
}

TEST("agent: close with a transfer that never ends leaks it, pinned, and says so") {
  const Fake& fake = freshFake();
  auto pair = std::make_unique<Pair>("leak");
  const auto memory = pair->memoryA;
  fake.set("never_complete", 1);
  const uint64_t handle = Post(*pair, Direction::kRead, {1}, {1}).mustTo(pair->a);
  const CommandCompletion closed = pair->a.close(20);
  CHECK(closed.result.status == Status::kDeadline);
  CHECK_EQ(closed.leakedTransfers, 1u);
  CHECK(pair->a.awaitOverdue(handle).result.status == Status::kDeadline);
  CHECK(!pair->a->shutdownNow(1'000));
  pair->a.destroy();
  CHECK(memory->free().status == Status::kBusy);
  // It writes although everything is gone: the memory must still be there.
  fake.set("complete_all", 1);
  const auto end = Clock::now() + std::chrono::seconds(60);
  while (fake.count("copies") == 0 && Clock::now() < end) std::this_thread::yield();
  CHECK_EQ(fake.count("copies"), 1);
  CHECK_EQ(memory->data()[Pair::kBlockBytes], 129u);
}

TEST(
    "agent: shutdown in the middle of a post that blocks returns in time, and tells nobody after") {
  const Fake& fake = freshFake();
  auto pair = std::make_unique<Pair>("blocked");
  fake.set("block_post_us", 1'500'000);
  Post(*pair, Direction::kRead, {1}, {1}).mustTo(pair->a);
  CHECK(!pair->a->shutdownNow(60));
  // The fake counts a post when it stops blocking.
  CHECK_EQ(fake.count("posts"), 0);
  const uint64_t told = pair->a.sink.total();
  // The thread ends on its own, later, and takes the agent down.
  const int64_t agents = fake.count("live_agents");
  const auto end = Clock::now() + std::chrono::seconds(60);
  while (fake.count("live_agents") == agents && Clock::now() < end) std::this_thread::yield();
  CHECK_EQ(fake.count("live_agents"), agents - 1);
  CHECK_EQ(pair->a.sink.total(), told);
}

TEST("agent: shutdown in every stage is clean") {
  freshFake();
  for (int stage = 0; stage < 4; stage++) {
    Pair pair("stage");
    if (stage == 1) Post(pair, Direction::kRead, {1}, {1}).mustTo(pair.a);
    if (stage == 2) pair.a->expectNotifications(true);
    if (stage == 3) pair.a.close();
    CHECK(pair.a->shutdownNow(5'000));
    CHECK(pair.a->shutdownNow(5'000));
    CHECK(pair.memoryA->free().ok());
  }
  TestSink sink;
  std::unique_ptr<Agent> agent;
  Ticket ticket = 0;
  REQUIRE(Agent::create({"at-once", fakeApi(), {"UCX"}, {}, nullptr}, sink, &agent, &ticket).ok());
  CHECK(agent->shutdownNow(5'000));
}
