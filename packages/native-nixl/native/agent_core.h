// What an Agent is made of: the registry of handles (under one mutex), the queue to the thread, and
// the completions from it. Shared by the JS side (agent*.cc) and the thread (agent_thread.cc), so
// that it lives until both are done with it. The mutex is never held across a call of the library.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
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

class CudaEvent;

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
  /** Opens it as well; null: none. */
  std::shared_ptr<CudaEvent> event;
  /** Not ok: the GPU failed before the event, and nothing behind the fence is ever posted. It stays so. */
  Result failure;
};

/** Fences by number: those below `next` that aren't in `open` have been signalled. */
struct FenceSet {
  uint64_t first = 0;
  uint64_t next = 0;
  std::unordered_map<uint64_t, OpenFence> open;
  /** Those with an event, the longest not asked about first; some have been opened since. */
  std::deque<uint64_t> byEvent;

  bool wasMade(uint64_t fence) const noexcept { return fence >= first && fence < next; }
  /** Those whose moment has come need no entry any more. */
  void forgetDue(MonotonicTime now);
};

/** What a post behind a fence has to know. */
struct FenceState {
  /** `min()` without a fence or with a signalled one, `max()` while nobody has said. */
  MonotonicTime due = MonotonicTime::min();
  std::shared_ptr<CudaEvent> event;
  Result failure;
};

struct AwaitedEvent {
  uint64_t fence = 0;
  std::shared_ptr<CudaEvent> event;
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
  // These three take the lock.
  FenceState fenceState(uint64_t fence) const;
  /** Asks the GPU once. True: the fence is open now, or has failed. */
  bool settleEvent(const AwaitedEvent& awaited);
  /** Asks about so many of the fences with an event, since nobody else does while no post waits for them. */
  void settleEvents(size_t count);
  void wakeForFences();

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
