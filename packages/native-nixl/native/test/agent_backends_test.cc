// The agent over the fake, with more than one of the library's backends.
#include "agent_fixture.h"

using namespace fixture;

namespace {

using Names = std::vector<std::string>;

const Names kBoth = {"UCX", "LIBFABRIC"};
const Names kBothReversed = {"LIBFABRIC", "UCX"};

void move(Pair& pair) {
  const uint64_t write = Post(pair, Direction::kWrite, {1}, {2}).mustTo(pair.a);
  CHECK(pair.a.awaitFinal(write).outcome == TransferOutcome::kDone);
  CHECK(isAll(pair.blockB(0, 2), 1));
}

}  // namespace

TEST("agent: another backend than UCX is created, registers the memory and moves the bytes") {
  const Fake& fake = freshFake();
  {
    Pair pair("fabric", {}, {}, {"LIBFABRIC"}, {"LIBFABRIC"});
    move(pair);
    CHECK_EQ(fake.count("created.LIBFABRIC"), 2);
    CHECK_EQ(fake.count("registrations.LIBFABRIC"), 2);
    CHECK_EQ(fake.count("posts.LIBFABRIC"), 1);
  }
  for (const char* of : {"created", "registrations", "posts", "parameter"}) {
    CHECK_EQ(fake.count((of + std::string(".UCX")).c_str()), 0);
  }
}

TEST("agent: of several backends all register, and the first of the list that both have moves") {
  struct Case {
    Names a;
    Names b;
    std::string moves;
  };
  for (const Case& each : {Case{kBoth, kBoth, "UCX"},
                           {kBothReversed, kBoth, "LIBFABRIC"},
                           {kBoth, {"LIBFABRIC"}, "LIBFABRIC"},
                           {kBothReversed, {"UCX"}, "UCX"},
                           {{"UCX"}, kBothReversed, "UCX"}}) {
    const Fake& fake = freshFake();
    Pair pair("several", {}, {}, each.a, each.b);
    CHECK_EQ(fake.count(("registrations." + each.a[0]).c_str()), fake.count(("created." + each.a[0]).c_str()));
    move(pair);
    CHECK_EQ(fake.count("posts"), 1);
    CHECK_EQ(fake.count(("posts." + each.moves).c_str()), 1);
  }
}

TEST("agent: slabs travel by the first backend of the list too") {
  const Fake& fake = freshFake();
  constexpr SlabConfig slabs{4 * 4'096, 2};
  Pair pair("slabs-by", slabs, slabs, kBoth, kBoth);
  pair.b->expectNotifications(true);
  const uint64_t write = Post(pair, Direction::kWrite, {1}, {2}).bySlabs().mustTo(pair.a);
  CHECK(pair.a.awaitFinal(write).outcome == TransferOutcome::kDone);
  CHECK(fake.count("posts.UCX") > 0);
  CHECK_EQ(fake.count("posts.LIBFABRIC"), 0);
}

TEST("agent: UCX alone is told how to take errors") {
  const Fake& fake = freshFake();
  TestAgent agent("told", {}, kBoth);
  CHECK_EQ(fake.count("parameter.UCX.ucx_error_handling_mode.peer"), 1);
  CHECK_EQ(fake.count("parameter.LIBFABRIC.ucx_error_handling_mode.peer"), 0);
}

TEST("agent: a backend that isn't created is named, with its library, and nothing stays behind") {
  const Fake& fake = freshFake();
  const int64_t options = fake.count("live_options");
  fake.set("fail_backend.LIBFABRIC", 1);
  {
    TestAgent agent("refused", {}, kBoth);
    CHECK(agent.ready.result.status == Status::kNixl);
    CHECK_EQ(agent.ready.result.detail, "LIBFABRIC of " + fakePath());
    CHECK(agent.close().result.ok());
  }
  for (const Names& names : {Names{"UCX", "UCX"}, Names{"NOPE"}}) {
    TestAgent agent("wrong", {}, names);
    CHECK_EQ(agent.ready.result.detail, names.back() + " of " + fakePath());
  }
  TestAgent agent("again", {}, kBoth);
  CHECK(agent.ready.result.ok());
  CHECK(agent.close().result.ok());
  CHECK_EQ(fake.count("live_options"), options);
}

TEST("agent: the post of one backend fails, and the peer that has no common one is refused") {
  const Fake& fake = freshFake();
  Pair pair("failing", {}, {}, kBothReversed, kBoth);
  fake.set("fail_post.LIBFABRIC", 1);
  const uint64_t write = Post(pair, Direction::kWrite, {1}, {2}).mustTo(pair.a);
  CHECK(pair.a.awaitFinal(write).outcome == TransferOutcome::kFailed);
  TestAgent ucx("ucx-only");
  TestAgent fabric("fabric-only", {}, {"LIBFABRIC"});
  const std::vector<uint8_t> blob = fabric.metadata();
  Ticket ticket = 0;
  REQUIRE(ucx->addPeer(blob.data(), blob.size(), "fabric-only", &ticket).ok());
  CHECK(ucx.await(ticket).result.status == Status::kMessageInvalid);
}
