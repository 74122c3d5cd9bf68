#include "../command_queue.h"

#include <memory>
#include <thread>

#include "check.h"

using namespace kvferry;

TEST("queue: order is kept, and what doesn't fit is refused whole") {
  CommandQueue<std::unique_ptr<int>> queue(3);
  CHECK(queue.push(std::make_unique<int>(1)));
  std::vector<std::unique_ptr<int>> three;
  for (int i = 0; i < 3; i++) three.push_back(std::make_unique<int>(i));
  bool isNotifyDue = true;
  CHECK(!queue.pushAll(std::move(three), &isNotifyDue));
  CHECK(three[0] != nullptr);
  three.pop_back();
  CHECK(queue.pushAll(std::move(three), &isNotifyDue));
  CHECK(!isNotifyDue);
  auto extra = std::make_unique<int>(9);
  CHECK(!queue.push(std::move(extra)));
  CHECK(extra != nullptr);
  std::vector<std::unique_ptr<int>> taken;
  queue.takeAll(&taken);
  REQUIRE(taken.size() == 3);
  CHECK_EQ(*taken[0], 1);
  CHECK_EQ(*taken[1], 0);
  CHECK_EQ(*taken[2], 1);
  CHECK(!queue.hasItems());
}

TEST("queue: a wait ends by an item, by a wake, and by its end") {
  CommandQueue<int> queue(4);
  queue.push(1);
  queue.wait();
  std::vector<int> taken;
  queue.takeAll(&taken);
  queue.wake();
  queue.wait();
  const auto before = std::chrono::steady_clock::now();
  queue.waitUntil(before + std::chrono::milliseconds(5));
  CHECK(std::chrono::steady_clock::now() - before >= std::chrono::milliseconds(5));
}

TEST("queue: nothing is lost or doubled between threads") {
  CommandQueue<int> queue(64);
  constexpr int kCount = 20'000;
  std::vector<std::thread> producers;
  for (int p = 0; p < 2; p++) {
    producers.emplace_back([&queue, p] {
      for (int i = 0; i < kCount;) {
        int item = p * kCount + i;
        if (queue.push(std::move(item))) {
          i += 1;
        } else {
          std::this_thread::yield();
        }
      }
    });
  }
  std::vector<int> next{0, 0};
  std::vector<int> taken;
  int total = 0;
  while (total < 2 * kCount) {
    queue.wait();
    queue.takeAll(&taken);
    for (const int item : taken) {
      const int producer = item / kCount;
      CHECK_EQ(item % kCount, next[static_cast<size_t>(producer)]);
      next[static_cast<size_t>(producer)] += 1;
    }
    total += static_cast<int>(taken.size());
  }
  for (std::thread& producer : producers) producer.join();
  CHECK_EQ(total, 2 * kCount);
}
