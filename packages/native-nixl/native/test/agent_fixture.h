// What the agent tests share: the fake library next to the test binary, an agent whose events can
// be waited for, and a pair of agents that know each other. Waits are for events, bounded by a
// deadline.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "../agent.h"
#include "../host_memory.h"
#include "check.h"

namespace fixture {

using namespace kvferry;

/** The exported knobs of the fake (fake-nixl/fake_control.cc). */
struct Fake {
  void (*set)(const char* name, int64_t value);
  int64_t (*count)(const char* name);
  void (*reset)();
};
/** Loads the fake once; every call of it resets knobs and counters. */
const Fake& freshFake();
std::shared_ptr<const NixlApi> fakeApi();
std::string fakePath();

class TestSink final : public CompletionSink {
 public:
  void notify() noexcept override;
  /** Until a notification that `waitUntil` hasn't consumed; false: the end came first. */
  bool waitUntil(std::chrono::steady_clock::time_point end);
  uint64_t total() const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable condition_;
  uint64_t total_ = 0;
  uint64_t seen_ = 0;
};

/** An agent, and everything that came out of it. */
class TestAgent {
 public:
  explicit TestAgent(const std::string& name, SlabConfig slabs = {},
                     std::vector<std::string> backends = {"UCX"});
  Agent* operator->() const { return agent_.get(); }
  Agent& get() const { return *agent_; }

  CommandCompletion await(Ticket ticket);
  /** The final completion. */
  TransferCompletion awaitFinal(uint64_t transfer);
  TransferCompletion awaitOverdue(uint64_t transfer);
  NotificationMessage awaitNotification();
  bool waitFor(const std::function<bool()>& condition, uint64_t ms = 60'000);
  void drain() { agent_->drain(&events); }
  size_t completionCount(uint64_t transfer) const;

  /** Shorthands that require success. */
  uint64_t registerRegion(const std::shared_ptr<HostMemory>& memory, uint64_t offset,
                          uint64_t length);
  std::vector<uint8_t> metadata();
  uint64_t addPeer(TestAgent& peer);
  CommandCompletion close(uint64_t deadlineMs = 5'000);
  void destroy() { agent_.reset(); }

  TestSink sink;
  AgentEvents events;
  CommandCompletion ready;

 private:
  std::unique_ptr<Agent> agent_;
};

std::shared_ptr<HostMemory> allocate(uint64_t bytes);

/** Two agents: `a` knows `b`. Two regions of 16 blocks of 4 KiB on each side. */
struct Pair {
  static constexpr uint64_t kBlockBytes = 4'096;
  static constexpr uint64_t kBlocks = 16;
  static constexpr uint64_t kBytes = 2 * kBlockBytes * kBlocks;

  explicit Pair(const std::string& prefix, SlabConfig slabsOfA = {}, SlabConfig slabsOfB = {},
                const std::vector<std::string>& backendsOfA = {"UCX"},
                const std::vector<std::string>& backendsOfB = {"UCX"});

  TestAgent a;
  TestAgent b;
  std::shared_ptr<HostMemory> memoryA = allocate(kBytes);
  std::shared_ptr<HostMemory> memoryB = allocate(kBytes);
  uint64_t regionA = 0;
  uint64_t regionB = 0;
  uint64_t peer = 0;
  uint64_t tableA = 0;
  uint64_t tableB = 0;
  /** The table of `b`, as `a` knows it. */
  uint64_t remoteTable = 0;

  uint8_t* blockA(uint64_t region, uint64_t block) const;
  uint8_t* blockB(uint64_t region, uint64_t block) const;
};

/** Whether every byte of a block is `value`, of which the lowest byte counts. */
bool isAll(const uint8_t* block, uint64_t value);

/** A post of block ids, with its own storage. */
struct Post {
  Post(const Pair& pair, Direction direction, std::vector<uint32_t> localIds,
       std::vector<uint32_t> remoteIds);
  Post& after(uint64_t fence);
  Post& deadline(uint64_t ms);
  Post& notification(const std::string& message);
  Post& bySlabs();
  PostView view() const;
  /** Posts it alone. */
  Result to(TestAgent& agent, uint64_t* handle, bool isWaiting = false) const;
  uint64_t mustTo(TestAgent& agent, bool isWaiting = false) const;

  PostView fields;
  std::vector<uint32_t> local;
  std::vector<uint32_t> remote;
  std::string message;
};

uint64_t table(TestAgent& agent, uint64_t region, uint64_t regions, uint64_t blockBytes,
               uint64_t blocks);

}  // namespace fixture
