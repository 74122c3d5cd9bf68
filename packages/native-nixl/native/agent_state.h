// The records that the JS side and the agent's thread share. Fields are marked with who may touch
// them: [const] set before sharing, [lock] under the core's mutex, [thread] only the agent's
// thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "agent.h"
#include "block_table.h"
#include "memory.h"
#include "nixl_handles.h"
#include "slab_wire.h"
#include "transfer_plan.h"

namespace kvferry {

using MonotonicClock = std::chrono::steady_clock;
using MonotonicTime = MonotonicClock::time_point;

/** The end of a wait; far ones are cut to a year, so that the clock's arithmetic can't wrap. */
inline MonotonicTime deadlineAfter(MonotonicTime now, uint64_t ms) {
  constexpr uint64_t kYearMs = uint64_t{365} * 24 * 3'600 * 1'000;
  return now + std::chrono::milliseconds(ms < kYearMs ? ms : kYearMs);
}

struct Region {
  uint64_t handle = 0;        // [const] once in the table
  MemoryPin pin;              // [thread] reset when deregistered
  uint64_t address = 0;       // [const]
  uint64_t lengthBytes = 0;   // [const]
  MemoryPlace place;          // [const]
  bool isTarget = true;       // [const] peers can reach it
  bool isRegistered = false;  // [lock]
  bool isLeaving = false;     // [lock] deregistration is enqueued
  uint64_t tableCount = 0;    // [lock]
  NixlRegistrationList list;  // [thread]
};

struct Peer {
  uint64_t handle = 0;         // [lock]
  std::string name;            // [const]
  SlabFacts slabs;             // [const] none: it lends none
  bool hasIpc = false;         // [const] its memory is mapped here
  std::string noIpc;           // [const] why not
  bool isRemoved = false;      // [lock]
  uint64_t openTransfers = 0;  // [lock] enqueued and without final status
};

struct TableEntry {
  BlockTable table;                              // [const]
  std::vector<std::shared_ptr<Region>> regions;  // [const] own tables: one per region
  uint64_t peer = 0;                             // [const] imported tables; 0 for own ones
  uint64_t openTransfers = 0;                    // [lock]

  bool isLocal() const noexcept { return peer == 0; }
};

/** A side of a post, copied out of the caller's arrays. Keeps its table alive. [const] */
struct OwnedSide {
  std::shared_ptr<TableEntry> entry;
  bool isSegments = false;
  /** Block ids, or the region of each segment. */
  std::vector<uint32_t> ids;
  std::vector<uint64_t> offsets;
  std::vector<uint64_t> lengths;

  PlanSide view() const noexcept {
    PlanSide side;
    side.table = &entry->table;
    side.isSegments = isSegments;
    side.count = ids.size();
    side.ids = ids.data();
    side.regions = ids.data();
    side.offsets = offsets.data();
    side.lengths = lengths.data();
    return side;
  }
};

/** What `isWaitUntilPosted` sleeps on. */
class PostWaiter {
 public:
  /** Before it is shared. */
  void expectOne() { left_ += 1; }

  void arrive() {
    std::lock_guard<std::mutex> lock(mutex_);
    if (--left_ == 0) condition_.notify_all();
  }
  void waitUntil(MonotonicTime end) {
    std::unique_lock<std::mutex> lock(mutex_);
    condition_.wait_until(lock, end, [this] { return left_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable condition_;
  size_t left_ = 0;
};

/** One transfer from enqueueing to its final status. Owned by the queue, then by the thread. */
struct Transfer {
  uint64_t handle = 0;
  Direction direction = Direction::kRead;
  std::shared_ptr<Peer> peer;
  OwnedSide local;
  OwnedSide remote;
  Path path = Path::kDescriptors;
  uint64_t fence = 0;  // 0: none
  bool hasNotification = false;
  std::vector<uint8_t> notification;
  uint64_t deadlineMs = 0;
  MonotonicTime enqueuedAt;
  MonotonicTime deadline;
  std::shared_ptr<PostWaiter> waiter;

  MonotonicTime takenAt;
  MonotonicTime postedAt;
  bool isPosted = false;
  TransferRequest request;
  /** Of the request, until it is posted; none without a notification. */
  NixlOptions options;
  /** Numbers of the completion, filled in as they become known. */
  TransferCompletion completion;
};

}  // namespace kvferry
