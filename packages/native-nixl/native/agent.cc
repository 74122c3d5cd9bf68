// The JS side of an agent: life and commands. Tables and fences are in agent_tables.cc, posts in
// agent_post.cc. Everything here checks, reserves and enqueues; the thread does.
#include "agent.h"

#include <signal.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <utility>

#include "agent_core.h"
#include "agent_thread.h"

namespace kvferry {
namespace {

/** So that handles of different agents don't look alike. */
uint64_t handleSalt() {
  static std::atomic<uint64_t> counter{std::random_device{}()};
  return counter.fetch_add(1) * 0x9E3779B97F4A7C15 >> 20;
}

/** Signals are for the threads of the host program, not for ours or the library's. */
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    sigfillset(&all);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP})
      sigdelset(&all, fault);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_;
};

constexpr size_t kQueueCapacity = limits::kTransfersInFlightMax + limits::kCommandsInFlightMax + 2;

}  // namespace

AgentCore::AgentCore(AgentConfig agentConfig, CompletionSink& sink)
    : config(std::move(agentConfig)),
      regions(HandleKind::kRegion, limits::kRegisteredRegionCountMax, handleSalt()),
      peers(HandleKind::kPeer, limits::kPeerCountMax, handleSalt()),
      tables(HandleKind::kTable, limits::kBlockTableCountMax, handleSalt()),
      transfers(HandleKind::kTransfer, limits::kTransfersInFlightMax, handleSalt()),
      queue(kQueueCapacity),
      completions(sink) {
  constexpr uint64_t kFenceCounterBits = 36;
  const uint64_t salt = handleSalt() & ((uint64_t{1} << 14) - 1);
  fences.first = (static_cast<uint64_t>(HandleKind::kFence) << 50) | (salt << kFenceCounterBits);
  fences.next = fences.first;
}

Result AgentCore::checkIntake() const {
  switch (intake) {
    case Intake::kOpen:
      return Result::success();
    case Intake::kClosed:
      return Result::failure(Status::kClosed, "agent", "the agent is closed");
    case Intake::kBroken:
      return Result::failure(Status::kBroken, "agent", "the agent is broken");
  }
  return Result::failure(Status::kBroken, "agent");
}

Result AgentCore::openTicket(Ticket* ticket) {
  Result open = checkIntake();
  if (!open.ok()) return open;
  if (commandsInFlight >= limits::kCommandsInFlightMax) {
    return Result::overLimit("commandsInFlightMax", commandsInFlight, limits::kCommandsInFlightMax);
  }
  commandsInFlight += 1;
  *ticket = nextTicket++;
  return open;
}

Result AgentCore::enqueue(Command command) {
  if (queue.push(std::move(command))) return Result::success();
  commandsInFlight -= 1;
  return Result::overLimit("commandsInFlightMax", kQueueCapacity, kQueueCapacity);
}

Agent::Agent(std::shared_ptr<AgentCore> core) : core_(std::move(core)) {}

Result Agent::create(AgentConfig config, CompletionSink& sink, std::unique_ptr<Agent>* agent,
                     Ticket* ready) {
  Result checked = checkConfig(config);
  if (!checked.ok()) return checked;
  auto core = std::make_shared<AgentCore>(std::move(config), sink);
  core->commandsInFlight = 1;
  *ready = core->nextTicket++;
  {
    BlockedSignals blocked;
    core->thread = std::thread([core, ticket = *ready] { runAgentThread(core, ticket); });
  }
  agent->reset(new Agent(std::move(core)));
  return Result::success();
}

Agent::~Agent() { shutdownNow(kShutdownWaitMs); }

const std::string& Agent::name() const noexcept { return core_->config.name; }

Result Agent::registerRegion(std::shared_ptr<Memory> memory, uint64_t offsetBytes,
                             uint64_t lengthBytes, Ticket* ticket) {
  uint64_t end = 0;
  if (memory == nullptr || lengthBytes == 0 ||
      __builtin_add_overflow(offsetBytes, lengthBytes, &end) || end > memory->sizeBytes()) {
    return Result::outOfRange("registerRegion", "the region lies outside its memory");
  }
  auto region = std::make_shared<Region>();
  region->address = memory->address() + offsetBytes;
  region->lengthBytes = lengthBytes;
  region->place = memory->place();
  region->isTarget = memory->isTarget();
  region->pin = MemoryPin(std::move(memory));
  if (!region->pin)
    return Result::failure(Status::kClosed, "registerRegion", "the memory was freed");
  std::lock_guard<std::mutex> lock(core_->mutex);
  if (core_->regions.isFull()) {
    return Result::overLimit("registeredRegionCountMax", core_->regions.size(),
                             limits::kRegisteredRegionCountMax);
  }
  Result opened = core_->openTicket(ticket);
  if (!opened.ok()) return opened;
  region->handle = core_->regions.insert(region);
  Result enqueued = core_->enqueue(RegisterCommand{*ticket, region});
  if (!enqueued.ok()) core_->regions.erase(region->handle);
  return enqueued;
}

Result Agent::deregisterRegion(uint64_t handle, Ticket* ticket) {
  std::lock_guard<std::mutex> lock(core_->mutex);
  const std::shared_ptr<Region>* found = core_->regions.find(handle);
  if (found == nullptr || !(*found)->isRegistered || (*found)->isLeaving) {
    return Result::failure(Status::kInvalidHandle, "deregisterRegion", "not a region");
  }
  const std::shared_ptr<Region> region = *found;
  if (region->tableCount > 0) {
    return Result::busy("region", region->tableCount, "block tables use the region");
  }
  Result opened = core_->openTicket(ticket);
  if (!opened.ok()) return opened;
  region->isLeaving = true;
  Result enqueued = core_->enqueue(DeregisterCommand{*ticket, region});
  if (!enqueued.ok()) region->isLeaving = false;
  return enqueued;
}

Result Agent::localMetadata(Ticket* ticket) {
  std::lock_guard<std::mutex> lock(core_->mutex);
  Result opened = core_->openTicket(ticket);
  return opened.ok() ? core_->enqueue(MetadataCommand{*ticket}) : opened;
}

Result Agent::addPeer(const uint8_t* metadata, size_t sizeBytes, std::string expectedName,
                      Ticket* ticket) {
  if (sizeBytes == 0 || sizeBytes > limits::kAgentMetadataSizeBytesMax) {
    return Result::failure(Status::kMessageInvalid, "addPeer", "size of the metadata");
  }
  if (expectedName.empty() || expectedName.size() > limits::kIdSizeBytesMax ||
      expectedName.find('\0') != std::string::npos) {
    return Result::outOfRange("addPeer", "the expected name must have 1 to 256 bytes, none zero");
  }
  std::vector<uint8_t> copy(metadata, metadata + sizeBytes);
  std::lock_guard<std::mutex> lock(core_->mutex);
  Result opened = core_->openTicket(ticket);
  if (!opened.ok()) return opened;
  return core_->enqueue(AddPeerCommand{*ticket, std::move(copy), std::move(expectedName)});
}

void AgentCore::forgetPeer(Peer& peer) {
  peer.isRemoved = true;
  std::vector<uint64_t> gone;
  tables.forEach([&](uint64_t handle, const std::shared_ptr<TableEntry>& entry) {
    if (entry->peer == peer.handle) gone.push_back(handle);
  });
  for (const uint64_t handle : gone) tables.erase(handle);
  peers.erase(peer.handle);
}

Result Agent::removePeer(uint64_t handle, Ticket* ticket) {
  std::lock_guard<std::mutex> lock(core_->mutex);
  const std::shared_ptr<Peer>* found = core_->peers.find(handle);
  if (found == nullptr && !core_->peers.wasErased(handle)) {
    return Result::failure(Status::kInvalidHandle, "removePeer", "not a peer");
  }
  const std::shared_ptr<Peer> peer = found != nullptr ? *found : nullptr;
  Result opened = core_->openTicket(ticket);
  if (!opened.ok()) return opened;
  Result enqueued = core_->enqueue(RemovePeerCommand{*ticket, peer});
  if (enqueued.ok() && peer != nullptr) core_->forgetPeer(*peer);
  return enqueued;
}

Result Agent::notify(uint64_t handle, const uint8_t* message, size_t sizeBytes, Ticket* ticket) {
  if (sizeBytes > limits::kNotificationSizeBytesMax) {
    return Result::outOfRange("notify", "the message is over 512 bytes");
  }
  std::vector<uint8_t> copy(message, message + sizeBytes);
  std::lock_guard<std::mutex> lock(core_->mutex);
  const std::shared_ptr<Peer>* peer = core_->peers.find(handle);
  if (peer == nullptr) return Result::failure(Status::kInvalidHandle, "notify", "not a peer");
  Result opened = core_->openTicket(ticket);
  return opened.ok() ? core_->enqueue(NotifyCommand{*ticket, *peer, std::move(copy)}) : opened;
}

Result Agent::close(uint64_t deadlineMs, Ticket* ticket) {
  std::lock_guard<std::mutex> lock(core_->mutex);
  if (core_->intake == Intake::kClosed) {
    return Result::failure(Status::kClosed, "close", "the agent is closed already");
  }
  // Neither a broken agent nor a full count of commands keeps it from being closed.
  core_->intake = Intake::kClosed;
  core_->commandsInFlight += 1;
  *ticket = core_->nextTicket++;
  return core_->enqueue(CloseCommand{*ticket, deadlineAfter(MonotonicClock::now(), deadlineMs)});
}

void Agent::expectNotifications(bool isExpected) {
  const bool before = core_->isNotificationExpected.exchange(isExpected);
  if (isExpected && !before) core_->queue.wake();
}

AgentCounters Agent::counters() const {
  const AtomicCounters& from = core_->counters;
  AgentCounters counters;
  counters.transfersPosted = from.transfersPosted;
  counters.transfersDone = from.transfersDone;
  counters.transfersFailed = from.transfersFailed;
  counters.transfersOpen = from.transfersOpen;
  counters.transfersDraining = from.transfersDraining;
  counters.notificationsReceived = from.notificationsReceived;
  counters.notificationsDropped = from.notificationsDropped;
  counters.bytesMoved = from.bytesMoved;
  counters.polls = from.polls;
  counters.slabsLent = from.slabsLent;
  counters.slabsSuspect = from.slabsSuspect;
  counters.slabsMoved = from.slabsMoved;
  counters.transfersByIpc = from.transfersByIpc;
  return counters;
}

void Agent::drain(AgentEvents* events) {
  const size_t transfersBefore = events->transfers.size();
  const size_t commandsBefore = events->commands.size();
  core_->completions.drain(events);
  std::lock_guard<std::mutex> lock(core_->mutex);
  for (size_t i = transfersBefore; i < events->transfers.size(); i++) {
    const TransferCompletion& completion = events->transfers[i];
    if (completion.outcome != TransferOutcome::kOverdue) core_->transfers.erase(completion.handle);
  }
  core_->commandsInFlight -= events->commands.size() - commandsBefore;
}

bool Agent::shutdownNow(uint64_t waitMs) {
  if (!core_->thread.joinable()) {
    std::lock_guard<std::mutex> lock(core_->endMutex);
    return core_->hasEnded && !core_->hasLeaked;
  }
  const MonotonicTime now = MonotonicClock::now();
  {
    std::lock_guard<std::mutex> lock(core_->mutex);
    core_->intake = Intake::kClosed;
  }
  // Half of the time for transfers, the rest for the library to take itself down.
  if (!core_->queue.push(CloseCommand{0, deadlineAfter(now, waitMs / 2)})) core_->queue.wake();
  bool hasEnded = false;
  bool hasLeaked = false;
  {
    std::unique_lock<std::mutex> lock(core_->endMutex);
    hasEnded = core_->endCondition.wait_until(lock, deadlineAfter(now, waitMs),
                                              [this] { return core_->hasEnded; });
    hasLeaked = core_->hasLeaked;
  }
  core_->completions.disarm();
  if (hasEnded) {
    core_->thread.join();
  } else {
    core_->thread.detach();
  }
  return hasEnded && !hasLeaked;
}

}  // namespace kvferry
