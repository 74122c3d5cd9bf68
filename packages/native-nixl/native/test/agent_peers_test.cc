// The agent over the fake: peers that are added, removed, replaced, and that die.
#include <algorithm>
#include <cstring>

#include "agent_fixture.h"

using namespace fixture;

namespace {

CommandCompletion tryAdd(TestAgent& agent, const std::vector<uint8_t>& metadata,
                         const std::string& name) {
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
  CHECK(tryAdd(agent, std::vector<uint8_t>(limits::kAgentMetadataSizeBytesMax + 1), "peer")
            .result.status == Status::kMessageInvalid);
  for (size_t size = 1; size < good.size(); size++) {
    const std::vector<uint8_t> cut(good.begin(), good.begin() + static_cast<long>(size));
    CHECK(tryAdd(agent, cut, "peer").result.status == Status::kMessageInvalid);
  }
  CHECK_EQ(fake.count("connections"), 0);
  fake.set("fail_connect", 1);
  CHECK(tryAdd(agent, good, "peer").result.status == Status::kNixl);
  CHECK(tryAdd(agent, good, "peer").result.ok());
}

TEST("agent: metadata that names a peer of ours under another name doesn't reach the library") {
  freshFake();
  Pair pair("known");
  std::vector<uint8_t> blob = pair.b.metadata();
  const std::string tag = "Incarnation";
  const auto at = std::search(blob.begin(), blob.end(), tag.begin(), tag.end());
  REQUIRE(at != blob.end());
  *(at + static_cast<long>(tag.size()) + 8) ^= 1;
  const CommandCompletion refused = tryAdd(pair.a, blob, "someone");
  CHECK(refused.result.status == Status::kPeerMismatch);
  CHECK_EQ(refused.result.detail, "known-b");
  CHECK(pair.a.awaitFinal(Post(pair, Direction::kRead, {1}, {1}).mustTo(pair.a)).outcome ==
        TransferOutcome::kDone);
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
  CHECK(Post(pair, Direction::kRead, {1}, {1}).to(pair.a, &handle).status ==
        Status::kInvalidHandle);
  CHECK(pair.a->releaseBlockTable(pair.remoteTable).ok());
  CHECK(remove(pair.a, pair.peer).result.ok());
  Ticket ticket = 0;
  CHECK(pair.a->removePeer(pair.tableA, &ticket).status == Status::kInvalidHandle);
  CHECK(pair.a->notify(pair.peer, nullptr, 0, &ticket).status == Status::kInvalidHandle);
  pair.peer = pair.a.addPeer(pair.b);
  std::vector<uint8_t> exported;
  REQUIRE(pair.b->exportBlockTable(pair.tableB, &exported).ok());
  REQUIRE(pair.a->importBlockTable(pair.peer, exported.data(), exported.size(), &pair.remoteTable)
              .ok());
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
  REQUIRE(pair.a->importBlockTable(pair.peer, exported.data(), exported.size(), &pair.remoteTable)
              .ok());
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
