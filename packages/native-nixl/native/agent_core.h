// What an Agent is made of: the registry of handles (under one mutex), the queue to the thread, and
// the completions from it. Shared by the JS side (agent*.cc) and the thread (agent_thread.cc), so
// that it lives until both are done with it. The mutex is never held across a call of the library.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "agent.h"
#include "agent_state.h"
#include "command.h"
#include "command_queue.h"
#include "completion_list.h"
#include "handle_table.h"

namespace kvferry {

enum class Intake : uint8_t { kOpen, kClosed, kBroken };

/** The counters of the contract, each written by one side and read by the other. */
struct AtomicCounters {
  std::atomic<uint64_t> transfersPosted{0};
  std::atomic<uint64_t> transfersDone{0};
  std::atomic<uint64_t> transfersFailed{0};
  std::atomic<uint64_t> transfersOpen{0};
  std::atomic<uint64_t> transfersDraining{0};
  std::atomic<uint64_t> notificationsReceived{0};
  std::atomic<uint64_t> notificationsDropped{0};
  std::atomic<uint64_t> bytesMoved{0};
  std::atomic<uint64_t> polls{0};
  std::atomic<uint64_t> slabsLent{0};
  std::atomic<uint64_t> slabsSuspect{0};
  std::atomic<uint64_t> slabsMoved{0};
  std::atomic<uint64_t> transfersByIpc{0};
};

struct OpenFence {
  /** `max()` while nobody has said. */
  MonotonicTime due = MonotonicTime::max();
  /** A post was enqueued behind it: only then has the thread a reason to wake when it is signalled. */
  bool isAwaited = false;
};

/** Fences by number: those below `next` that aren't in `open` have been signalled. */
struct FenceSet {
  uint64_t first = 0;
  uint64_t next = 0;
  std::unordered_map<uint64_t, OpenFence> open;

  bool wasMade(uint64_t fence) const noexcept { return fence >= first && fence < next; }
  /** Those whose moment has come need no entry any more. */
  void forgetDue(MonotonicTime now);
};

/** kOutOfRange: the name, slabs, or the path `ipc`; kUnavailable: no library. */
Result checkConfig(const AgentConfig& config);

class AgentCore {
 public:
  AgentCore(AgentConfig agentConfig, CompletionSink& sink);
  AgentCore(const AgentCore&) = delete;
  AgentCore& operator=(const AgentCore&) = delete;

  /** Ok while commands and posts are accepted. Needs the lock. */
  Result checkIntake() const;
  /** `checkIntake`, the bound on commands, and a new ticket. Needs the lock. */
  Result openTicket(Ticket* ticket);
  /** Takes the ticket back if the queue is full (it can't be: its bounds add up). Needs the lock.
   */
  Result enqueue(Command command);

  /** Under the lock: the handle and the imported tables are gone. */
  void forgetPeer(Peer& peer);
  /**
   * From when on a post may go out: `min()` without a fence or with a signalled one, `max()` while
   * nobody has signalled it. Takes the lock.
   */
  MonotonicTime fenceDue(uint64_t fence) const;

  const AgentConfig config;

  mutable std::mutex mutex;
  Intake intake = Intake::kOpen;
  HandleTable<std::shared_ptr<Region>> regions;
  HandleTable<std::shared_ptr<Peer>> peers;
  HandleTable<std::shared_ptr<TableEntry>> tables;
  /** Only names transfers: from the post until the final completion is drained. */
  HandleTable<char> transfers;
  FenceSet fences;
  PlanScratch scratch;
  uint64_t commandsInFlight = 0;
  Ticket nextTicket = 1;

  CommandQueue<Command> queue;
  CompletionList completions;
  AtomicCounters counters;
  std::atomic<bool> isNotificationExpected{false};
  /** Changes whenever a fence with posts is signalled, so that the thread looks at these. */
  std::atomic<uint64_t> fenceEpoch{0};

  std::thread thread;
  std::mutex endMutex;
  std::condition_variable endCondition;
  bool hasEnded = false;
  bool hasLeaked = false;
};

}  // namespace kvferry
