// The agent over the fake: notifications, polling, and how often the sink is told.
#include <thread>

#include "raw_agent.h"

using namespace fixture;
using Clock = std::chrono::steady_clock;

TEST("agent: idle costs no poll; expecting polls until it is turned off") {
  freshFake();
  Pair pair("idle");
  pair.a.awaitFinal(Post(pair, Direction::kRead, {1}, {1}).mustTo(pair.a));
  // A new peer is polled for a while (limits::kFlushMs), until the wire-up is through. Quiet is the
  // absence of an event, so it takes a time: much longer than the longest pause between polls.
  const auto isQuiet = [&] {
    const uint64_t before = pair.a->counters().polls;
    std::this_thread::sleep_for(std::chrono::milliseconds(250));
    return pair.a->counters().polls == before;
  };
  REQUIRE(pair.a.waitFor(isQuiet));
  CHECK(isQuiet());
  const uint64_t before = pair.a->counters().polls;
  pair.a->expectNotifications(true);
  REQUIRE(pair.a.waitFor([&] { return pair.a->counters().polls > before + 20; }));
  CHECK(!isQuiet());
  pair.a->expectNotifications(false);
  CHECK(pair.a.waitFor(isQuiet));
}

TEST("agent: while only a message of its own may still have to leave, it polls once a millisecond") {
  freshFake();
  Pair pair("flush");
  pair.a.awaitFinal(Post(pair, Direction::kRead, {1}, {1}).notification("done").mustTo(pair.a));
  // Polls that the machine holds up look like activity, so one window without is waited for.
  const auto isSparse = [&] {
    const Clock::time_point start = Clock::now();
    const uint64_t before = pair.a->counters().polls;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const uint64_t polls = pair.a->counters().polls - before;
    const auto elapsed = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start);
    return polls > 0 && polls <= static_cast<uint64_t>(elapsed.count()) + 2;
  };
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  // Under a sanitizer each poll takes so long that it looks like activity: only that it polls can be seen.
  const uint64_t before = pair.a->counters().polls;
  CHECK(pair.a.waitFor([&] { return pair.a->counters().polls > before || isSparse(); }));
#else
  CHECK(pair.a.waitFor(isSparse));
#endif
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
  while (agent->counters().notificationsReceived < total && Clock::now() < end)
    std::this_thread::yield();
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
  CHECK(Post(pair, Direction::kWrite, {1}, {1})
            .notification(std::string(513, 'x'))
            .to(pair.a, &handle)
            .status == Status::kOutOfRange);
  fake.set("fail_notify", 1);
  REQUIRE(pair.a->notify(pair.peer, message.data(), message.size(), &ticket).ok());
  CHECK(pair.a.await(ticket).result.status == Status::kNixl);
}

TEST("agent: the sink is told once per batch") {
  freshFake();
  TestAgent agent("batch");
  const uint64_t before = agent.sink.total();
  Ticket ticket = 0;
  for (int i = 0; i < 50; i++) REQUIRE(agent->localMetadata(&ticket).ok());
  // Undrained, however many are done: one notification.
  const auto end = Clock::now() + std::chrono::seconds(60);
  while (agent.sink.total() == before && Clock::now() < end) std::this_thread::yield();
  CHECK_EQ(agent.sink.total(), before + 1);
  agent.await(ticket);
  CHECK(agent.sink.total() <= before + agent.events.commands.size());
}
