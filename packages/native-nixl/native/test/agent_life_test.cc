// The agent over the fake: start, peers, notifications, close.
#include <cstring>
#include <thread>

#include "agent_fixture.h"

using namespace fixture;
using Clock = std::chrono::steady_clock;

namespace {

/** An agent of the library itself, driven by hand on this thread: for what ours refuses to do. */
class RawAgent {
 public:
  explicit RawAgent(const std::string& name) : api_(fakeApi()) {
    NixlAgentConfig config;
    REQUIRE(api_->create_configured_agent(name.c_str(), &config, &agent_) == 0);
    NixlHandle params = nullptr;
    api_->create_params(&params);
    REQUIRE(api_->create_backend(agent_, "UCX", params, &backend_) == 0);
    api_->destroy_params(params);
  }
  ~RawAgent() {
    api_->destroy_backend(backend_);
    api_->destroy_agent(agent_);
  }
  RawAgent(const RawAgent&) = delete;
  RawAgent& operator=(const RawAgent&) = delete;

  void load(const std::vector<uint8_t>& metadata) {
    char* name = nullptr;
    REQUIRE(api_->load_remote_md(agent_, metadata.data(), metadata.size(), &name) == 0);
    std::free(name);
  }
  void notify(const std::string& to, const std::string& message) {
    REQUIRE(api_->gen_notif(agent_, to.c_str(), message.data(), message.size(), nullptr) == 0);
  }

 private:
  std::shared_ptr<const NixlApi> api_;
  NixlHandle agent_ = nullptr;
  NixlHandle backend_ = nullptr;
};

CommandCompletion tryAdd(TestAgent& agent, const std::vector<uint8_t>& metadata, const std::string& name) {
  Ticket ticket = 0;
  const Result enqueued = agent->addPeer(metadata.data(), metadata.size(), name, &ticket);
  if (enqueued.ok()) return agent.await(ticket);
  CommandCompletion refused;
  refused.result = enqueued;
  return refused;
}

CommandCompletion remove(TestAgent& agent, uint64_t peer) {
  Ticket ticket = 0;
  REQUIRE(agent->removePeer(peer, &ticket).ok());
  return agent.await(ticket);
}

}  // namespace

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
    CHECK(Agent::create({name, fakeApi(), {"UCX"}}, sink, &agent, &ticket).status == Status::kOutOfRange);
  }
}

TEST("agent: regions outside their memory and freed memory are refused, failures give the pin back") {
  const Fake& fake = freshFake();
  TestAgent agent("regions");
  const auto memory = allocate(8'192);
  Ticket ticket = 0;
  for (const auto& [offset, length] : {std::pair<uint64_t, uint64_t>{0, 0}, {0, 8'193}, {8'192, 1},
                                       {~uint64_t{0}, 2}, {1, ~uint64_t{0}}}) {
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

TEST("agent: metadata that is wrong, cut or of another name is refused") {
  const Fake& fake = freshFake();
  TestAgent agent("strict");
  TestAgent peer("peer");
  const std::vector<uint8_t> good = peer.metadata();
  const CommandCompletion other = tryAdd(agent, good, "someone");
  CHECK(other.result.status == Status::kPeerMismatch);
  CHECK_EQ(other.result.detail, "peer");
  CHECK(tryAdd(agent, agent.metadata(), "strict").result.status == Status::kPeerMismatch);
  CHECK(tryAdd(agent, {}, "peer").result.status == Status::kMessageInvalid);
  CHECK(tryAdd(agent, std::vector<uint8_t>(limits::kAgentMetadataSizeBytesMax + 1), "peer").result.status ==
        Status::kMessageInvalid);
  for (size_t size = 1; size < good.size(); size++) {
    const std::vector<uint8_t> cut(good.begin(), good.begin() + static_cast<long>(size));
    CHECK(tryAdd(agent, cut, "peer").result.status == Status::kMessageInvalid);
  }
  CHECK_EQ(fake.count("connections"), 0);
  fake.set("fail_connect", 1);
  CHECK(tryAdd(agent, good, "peer").result.status == Status::kNixl);
  CHECK(tryAdd(agent, good, "peer").result.ok());
}

TEST("agent: peers are bounded, and a removed one makes room") {
  freshFake();
  TestAgent agent("crowded");
  TestAgent peer("name-000");
  const std::vector<uint8_t> good = peer.metadata();
  std::vector<uint64_t> handles;
  const auto add = [&](int number) {
    char name[16];
    std::snprintf(name, sizeof name, "name-%03d", number);
    std::vector<uint8_t> blob = good;
    // The name lies behind the tag and its length.
    std::memcpy(blob.data() + std::strlen("nixlSerDes|Agent") + 8, name, 8);
    return tryAdd(agent, blob, name);
  };
  for (uint64_t i = 0; i < limits::kPeerCountMax; i++) {
    const CommandCompletion added = add(static_cast<int>(i));
    REQUIRE(added.result.ok());
    handles.push_back(added.handle);
  }
  const CommandCompletion refused = add(999);
  CHECK(refused.result.status == Status::kLimit);
  CHECK_EQ(std::string(refused.result.limit), "peerCountMax");
  CHECK(remove(agent, handles[7]).result.ok());
  CHECK(add(999).result.ok());
}

TEST("agent: a removed peer and its tables are stale; it can be added again") {
  freshFake();
  Pair pair("removed");
  CHECK(remove(pair.a, pair.peer).result.ok());
  uint64_t handle = 0;
  CHECK(Post(pair, Direction::kRead, {1}, {1}).to(pair.a, &handle).status == Status::kInvalidHandle);
  CHECK(pair.a->releaseBlockTable(pair.remoteTable).ok());
  CHECK(remove(pair.a, pair.peer).result.ok());
  Ticket ticket = 0;
  CHECK(pair.a->removePeer(pair.tableA, &ticket).status == Status::kInvalidHandle);
  CHECK(pair.a->notify(pair.peer, nullptr, 0, &ticket).status == Status::kInvalidHandle);
  pair.peer = pair.a.addPeer(pair.b);
  std::vector<uint8_t> exported;
  REQUIRE(pair.b->exportBlockTable(pair.tableB, &exported).ok());
  REQUIRE(pair.a->importBlockTable(pair.peer, exported.data(), exported.size(), &pair.remoteTable).ok());
  CHECK(pair.a.awaitFinal(Post(pair, Direction::kRead, {1}, {1}).mustTo(pair.a)).outcome ==
        TransferOutcome::kDone);
}

TEST("agent: removing a peer doesn't end its transfers, nor lose their status") {
  const Fake& fake = freshFake();
  Pair pair("open");
  fake.set("never_complete", 1);
  const uint64_t handle = Post(pair, Direction::kRead, {1}, {1}).mustTo(pair.a);
  CHECK(remove(pair.a, pair.peer).result.ok());
  CHECK_EQ(pair.a->counters().transfersOpen, 1u);
  const CommandCompletion refused = tryAdd(pair.a, pair.b.metadata(), "open-b");
  CHECK(refused.result.status == Status::kBusy);
  CHECK_EQ(refused.result.value, 1u);
  fake.set("complete_all", 1);
  CHECK(pair.a.awaitFinal(handle).outcome == TransferOutcome::kDone);
  CHECK(tryAdd(pair.a, pair.b.metadata(), "open-b").result.ok());
}

TEST("agent: a peer that comes back under its name replaces the older one") {
  freshFake();
  Pair pair("again");
  pair.b.close();
  pair.b.destroy();
  const TransferCompletion dead =
      pair.a.awaitFinal(Post(pair, Direction::kRead, {1}, {1}).mustTo(pair.a));
  CHECK(dead.outcome == TransferOutcome::kFailed);
  CHECK(dead.result.status == Status::kNixl);
  TestAgent reborn("again-b");
  const auto memory = allocate(Pair::kBytes);
  const uint64_t region = reborn.registerRegion(memory, 0, Pair::kBytes);
  const uint64_t own = table(reborn, region, 2, Pair::kBlockBytes, Pair::kBlocks);
  const uint64_t older = pair.peer;
  const uint64_t olderTable = pair.remoteTable;
  pair.peer = pair.a.addPeer(reborn);
  CHECK(pair.peer != older);
  BlockTableDescription description;
  CHECK(pair.a->describeBlockTable(olderTable, &description).status == Status::kInvalidHandle);
  std::vector<uint8_t> exported;
  REQUIRE(reborn->exportBlockTable(own, &exported).ok());
  REQUIRE(pair.a->importBlockTable(pair.peer, exported.data(), exported.size(), &pair.remoteTable).ok());
  CHECK(pair.a.awaitFinal(Post(pair, Direction::kRead, {1}, {1}).mustTo(pair.a)).outcome ==
        TransferOutcome::kDone);
}

TEST("agent: a peer that dies fails what is in flight, once") {
  const Fake& fake = freshFake();
  Pair pair("dies");
  fake.set("delay_us", 10'000'000);
  const uint64_t handle = Post(pair, Direction::kRead, {1}, {1}).mustTo(pair.a);
  REQUIRE(pair.a.waitFor([&] { return fake.count("posts") == 1; }));
  pair.b.close();
  CHECK(pair.a.awaitFinal(handle).outcome == TransferOutcome::kFailed);
  CHECK_EQ(pair.a.completionCount(handle), 1u);
}

TEST("agent: idle costs no poll; expecting polls until it is turned off") {
  freshFake();
  Pair pair("idle");
  pair.a.awaitFinal(Post(pair, Direction::kRead, {1}, {1}).mustTo(pair.a));
  // A new peer is polled for a while (limits::kFlushMs), until the wire-up is through.
  const auto isQuiet = [&] {
    const uint64_t before = pair.a->counters().polls;
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    return pair.a->counters().polls == before;
  };
  REQUIRE(pair.a.waitFor(isQuiet));
  const uint64_t before = pair.a->counters().polls;
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  CHECK_EQ(pair.a->counters().polls, before);
  pair.a->expectNotifications(true);
  REQUIRE(pair.a.waitFor([&] { return pair.a->counters().polls > before + 20; }));
  CHECK(!isQuiet());
  pair.a->expectNotifications(false);
  CHECK(pair.a.waitFor(isQuiet));
}

TEST("agent: messages arrive once expected; those over the limit are dropped and counted") {
  freshFake();
  TestAgent agent("inbox");
  RawAgent raw("raw");
  raw.load(agent.metadata());
  raw.notify("inbox", std::string(limits::kNotificationSizeBytesMax + 1, 'x'));
  raw.notify("inbox", std::string(limits::kNotificationSizeBytesMax, 'y'));
  raw.notify("inbox", "");
  agent->expectNotifications(true);
  const NotificationMessage first = agent.awaitNotification();
  CHECK_EQ(first.from, "raw");
  CHECK_EQ(first.message.size(), limits::kNotificationSizeBytesMax);
  CHECK_EQ(agent.awaitNotification().message.size(), 0u);
  CHECK_EQ(agent->counters().notificationsReceived, 3u);
  CHECK_EQ(agent->counters().notificationsDropped, 1u);
}

TEST("agent: of too many messages the oldest are dropped and counted") {
  freshFake();
  TestAgent agent("backlog");
  RawAgent raw("flood");
  raw.load(agent.metadata());
  const uint64_t total = limits::kNotificationBacklogMax + 5;
  for (uint64_t i = 0; i < total; i++) raw.notify("backlog", std::to_string(i));
  agent->expectNotifications(true);
  const auto end = Clock::now() + std::chrono::seconds(60);
  while (agent->counters().notificationsReceived < total && Clock::now() < end) std::this_thread::yield();
  agent.drain();
  REQUIRE(agent.events.notifications.size() == limits::kNotificationBacklogMax);
  const auto& first = agent.events.notifications.front().message;
  CHECK_EQ(std::string(first.begin(), first.end()), "5");
  CHECK_EQ(agent->counters().notificationsDropped, 5u);
}

TEST("agent: a message without a transfer arrives; a wrong one is refused") {
  const Fake& fake = freshFake();
  Pair pair("notify");
  pair.b->expectNotifications(true);
  const std::vector<uint8_t> message{0, 1, 255};
  Ticket ticket = 0;
  REQUIRE(pair.a->notify(pair.peer, message.data(), message.size(), &ticket).ok());
  CHECK(pair.a.await(ticket).result.ok());
  CHECK(pair.b.awaitNotification().message == message);
  const std::vector<uint8_t> big(limits::kNotificationSizeBytesMax + 1);
  CHECK(pair.a->notify(pair.peer, big.data(), big.size(), &ticket).status == Status::kOutOfRange);
  uint64_t handle = 0;
  CHECK(Post(pair, Direction::kWrite, {1}, {1}).notification(std::string(513, 'x')).to(pair.a, &handle)
            .status == Status::kOutOfRange);
  fake.set("fail_notify", 1);
  REQUIRE(pair.a->notify(pair.peer, message.data(), message.size(), &ticket).ok());
  CHECK(pair.a.await(ticket).result.status == Status::kNixl);
}

TEST("agent: commands in flight are bounded until they are drained") {
  freshFake();
  TestAgent agent("commands");
  Ticket ticket = 0;
  for (uint64_t i = 0; i < limits::kCommandsInFlightMax; i++) {
    REQUIRE(agent->localMetadata(&ticket).ok());
  }
  CHECK(agent->localMetadata(&ticket).status == Status::kLimit);
  REQUIRE(agent.waitFor([&] { return agent.events.commands.size() > limits::kCommandsInFlightMax; }));
  CHECK(agent->localMetadata(&ticket).ok());
}

TEST("agent: the sink is told once per batch") {
  freshFake();
  TestAgent agent("batch");
  const uint64_t before = agent.sink.total();
  Ticket ticket = 0;
  for (int i = 0; i < 50; i++) REQUIRE(agent->localMetadata(&ticket).ok());
  // Undrained, however many are done: one notification.
  const auto end = Clock::now() + std::chrono::seconds(20);
  while (agent.sink.total() == before && Clock::now() < end) std::this_thread::yield();
  CHECK_EQ(agent.sink.total(), before + 1);
  agent.await(ticket);
  CHECK(agent.sink.total() <= before + agent.events.commands.size());
}

TEST("agent: a library that keeps failing breaks the agent, told once; close still works") {
  const Fake& fake = freshFake();
  Pair pair("broken");
  uint64_t fence = 0;
  REQUIRE(pair.a->createFence(&fence).ok());
  const uint64_t held = Post(pair, Direction::kRead, {1}, {1}).after(fence).mustTo(pair.a);
  fake.set("fail_poll", 1'000'000);
  pair.a->expectNotifications(true);
  REQUIRE(pair.a.waitFor([&] { return pair.a.events.isBroken; }));
  CHECK(pair.a.events.broken.status == Status::kNixl);
  uint64_t handle = 0;
  CHECK(Post(pair, Direction::kRead, {1}, {1}).to(pair.a, &handle).status == Status::kBroken);
  CHECK(pair.a->signalFence(fence).ok());
  CHECK(pair.a.awaitFinal(held).result.status == Status::kBroken);
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
  const auto end = Clock::now() + std::chrono::seconds(20);
  while (fake.count("copies") == 0 && Clock::now() < end) std::this_thread::yield();
  CHECK_EQ(fake.count("copies"), 1);
  CHECK_EQ(memory->data()[Pair::kBlockBytes], 129u);
}

TEST("agent: shutdown in the middle of a post that blocks returns in time, and tells nobody after") {
  const Fake& fake = freshFake();
  auto pair = std::make_unique<Pair>("blocked");
  fake.set("block_post_us", 400'000);
  Post(*pair, Direction::kRead, {1}, {1}).mustTo(pair->a);
  const auto before = Clock::now();
  CHECK(!pair->a->shutdownNow(60));
  CHECK(Clock::now() - before < std::chrono::milliseconds(350));
  const uint64_t told = pair->a.sink.total();
  // The thread ends on its own, later, and takes the agent down.
  const int64_t agents = fake.count("live_agents");
  const auto end = Clock::now() + std::chrono::seconds(20);
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
  REQUIRE(Agent::create({"at-once", fakeApi(), {"UCX"}}, sink, &agent, &ticket).ok());
  CHECK(agent->shutdownNow(5'000));
}
