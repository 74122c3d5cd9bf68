#include "agent_thread.h"

#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace kvferry {
namespace {

/** For so long after something happened the thread only yields between polls. */
constexpr std::chrono::microseconds kYieldTime{50};
/**
 * A poll that took longer than this may have moved data, and more is likely to follow at once. Or
 * the thread was only preempted: so it takes two such polls close together to count as activity.
 */
constexpr std::chrono::microseconds kIdlePollTime{10};
constexpr std::chrono::nanoseconds kIdlePollTimePerTransfer{500};
constexpr std::chrono::microseconds kPollWhilePosting{200};
constexpr std::chrono::seconds kDescriptorCheckTime{1};
constexpr unsigned long kTimerSlackNs = 1'000;
/** The least that the scheduler takes. */
constexpr uint64_t kTimeSliceNs = 100'000;

/**
 * The longer nothing happened, the longer the pause: 20 us at first, 250 us from 50 ms on. Where nothing is
 * open or expected, and only a message of ours may still wait in a queue, 1 ms: nearly all have left with the
 * first polls, and under load there is always a last one.
 */
std::chrono::microseconds pauseAfter(MonotonicClock::duration quiet, bool isOnlyFlushing) {
  if (quiet < std::chrono::milliseconds(2)) return std::chrono::microseconds(20);
  if (isOnlyFlushing) return std::chrono::milliseconds(1);
  if (quiet < std::chrono::milliseconds(10)) return std::chrono::microseconds(50);
  if (quiet < std::chrono::milliseconds(50)) return std::chrono::microseconds(100);
  static_assert(limits::kPollPauseUsMax >= 250);
  return std::chrono::microseconds(250);
}

/** As the kernel has it; libraries have no name for it. */
struct SchedulingAttributes {
  uint32_t sizeBytes = sizeof(SchedulingAttributes);
  uint32_t policy = SCHED_OTHER;
  uint64_t flags = 0;
  int32_t nice = 0;
  uint32_t priority = 0;
  uint64_t runtimeNs = 0;
  uint64_t deadlineNs = 0;
  uint64_t periodNs = 0;
};

/**
 * A thread that works for microseconds and pauses asks for short turns: then it gets them as soon as it
 * wakes, where cores are busy, and a yield gives away one short turn, not a usual one of
 * milliseconds. Linux 6.12 and later; others have usual turns.
 */
void askForShortTurns() {
  SchedulingAttributes attributes;
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof(attributes), 0) != 0) return;
  if (attributes.policy != SCHED_OTHER) return;
  attributes.runtimeNs = kTimeSliceNs;
  syscall(SYS_sched_setattr, 0, &attributes, 0);
}

/**
 * What must outlive its thread, because the library may still write through it. Reachable for ever,
 * so that leak checkers see intent.
 */
void leakForEver(std::unique_ptr<AgentThread> thread) {
  static auto* mutex = new std::mutex;
  static auto* leaked = new std::vector<AgentThread*>;
  std::lock_guard<std::mutex> lock(*mutex);
  leaked->push_back(thread.release());
}

}  // namespace

void runAgentThread(std::shared_ptr<AgentCore> core, Ticket ready) {
  pthread_setname_np(pthread_self(), "kvferry-nixl");
  // Short pauses would otherwise be rounded up by the default slack of 50 us.
  prctl(PR_SET_TIMERSLACK, kTimerSlackNs, 0, 0, 0);
  askForShortTurns();
  auto thread = std::make_unique<AgentThread>(core);
  const bool isClean = thread->run(ready);
  if (isClean) {
    thread.reset();
  } else {
    leakForEver(std::move(thread));
  }
  {
    // Notified under the lock: whoever waits may destroy what it waits on as soon as it sees the
    // flag.
    std::lock_guard<std::mutex> lock(core->endMutex);
    core->hasEnded = true;
    core->hasLeaked = !isClean;
    core->endCondition.notify_all();
  }
}

AgentThread::AgentThread(std::shared_ptr<AgentCore> core) : core_(std::move(core)) {}

bool AgentThread::run(Ticket ready) {
  Result started = start();
  isReady_ = started.ok();
  if (!isReady_) {
    std::lock_guard<std::mutex> lock(core_->mutex);
    if (core_->intake == Intake::kOpen) core_->intake = Intake::kBroken;
  }
  complete(ready, std::move(started));
  noteActivity();
  bool isClean = true;
  for (;;) {
    takeCommands();
    askEvents();
    postHeld();
    poll();
    stepSlabs();
    stepIpc();
    endSettled(false);
    if (isFinished(&isClean)) return isClean;
    sleep();
  }
}

void AgentThread::takeCommands() {
  if (!core_->queue.hasItems()) return;
  core_->queue.takeAll(&batch_);
  // Posts may copy for milliseconds each; what ends meanwhile should not wait for the whole batch.
  // But a poll looks at everything that is open: after each post it would cost more than the posts.
  MonotonicTime nextPoll = MonotonicClock::now() + kPollWhilePosting;
  for (Command& command : batch_) {
    std::visit([this](auto& each) { execute(each); }, command);
    const MonotonicTime now = MonotonicClock::now();
    if (active_.empty() || now < nextPoll) continue;
    pollTransfers();
    const MonotonicTime after = MonotonicClock::now();
    nextPoll = after + std::max<MonotonicClock::duration>(kPollWhilePosting, 2 * (after - now));
  }
  batch_.clear();
  noteActivity();
}

void AgentThread::poll() {
  const MonotonicTime before = MonotonicClock::now();
  const auto idle = kIdlePollTime + kIdlePollTimePerTransfer * static_cast<int64_t>(active_.size());
  pollTransfers();
  takeNotifications();
  if (MonotonicClock::now() - before <= idle) {
    busyScore_ = std::max(0, busyScore_ - 1);
    return;
  }
  if (busyScore_ > 0) noteActivity();
  busyScore_ = 3;
}

void AgentThread::sleep() {
  if (core_->queue.hasItems()) return;
  const MonotonicTime now = MonotonicClock::now();
  MonotonicTime end = MonotonicTime::max();
  if (isPolling() || !awaited_.empty()) {
    const auto quiet = now - lastActivity_;
    if (quiet < kYieldTime || busyScore_ > 0) {
      sched_yield();
      return;
    }
    end = now + pauseAfter(quiet, !isAwaitingPeers() && awaited_.empty());
    if (now - descriptorsCheckedAt_ > kDescriptorCheckTime) {
      descriptors_.markNew();
      descriptorsCheckedAt_ = now;
    }
  }
  const bool hasKernels = ipc_ != nullptr && ipc_->hasTasks();
  if (!draining_.empty() || hasKernels || (borrower_ != nullptr && borrower_->hasTasks())) {
    end = std::min(end, now + std::chrono::microseconds(limits::kDrainingPollPauseUs));
  }
  for (const auto& transfer : held_) end = std::min(end, transfer->deadline);
  if (!held_.empty()) end = std::min(end, heldDue_);
  if (!settling_.empty()) end = std::min(end, settling_.front().due);
  if (isClosing_) end = std::min(end, closeDeadline_);
  if (end == MonotonicTime::max()) {
    core_->queue.wait();
    // Commands are activity, and noted when they are taken. An expectation is none: to yield for what can't
    // have come yet would take turns from the thread that expects it.
    lastActivity_ = MonotonicClock::now() - kYieldTime;
  } else {
    core_->queue.waitUntil(end);
  }
}

void AgentThread::breakDown(Result reason) {
  {
    std::lock_guard<std::mutex> lock(core_->mutex);
    if (core_->intake == Intake::kOpen) core_->intake = Intake::kBroken;
  }
  isReady_ = false;
  core_->completions.pushBroken(std::move(reason));
}

bool AgentThread::isFinished(bool* isClean) {
  if (!isClosing_) return false;
  const bool isLate = MonotonicClock::now() >= closeDeadline_;
  if (isLate) {
    // Never handed to the network, so this is final.
    awaited_.clear();
    for (auto& transfer : std::exchange(held_, {})) {
      finish(std::move(transfer), TransferOutcome::kFailed,
             Result::failure(Status::kClosed, "post", "the agent was closed"));
    }
  }
  const bool hasOpen = !active_.empty() || !draining_.empty() || !held_.empty() ||
                       (borrower_ != nullptr && borrower_->hasTasks()) ||
                       (ipc_ != nullptr && ipc_->hasTasks());
  if (hasOpen && !isLate) return false;
  endSettled(true);
  CommandCompletion completion;
  completion.ticket = closeTicket_;
  completion.leakedTransfers = hasOpen ? abandonOpenTransfers() : 0;
  *isClean = completion.leakedTransfers == 0;
  if (*isClean) {
    takeDown();
  } else {
    completion.result = Result::failure(
        Status::kDeadline, "close", "transfers have no final status; their memory stays pinned");
    completion.result.value = completion.leakedTransfers;
  }
  if (closeTicket_ != 0) core_->completions.push(std::move(completion));
  return true;
}

uint64_t AgentThread::abandonOpenTransfers() {
  for (auto& transfer : active_) reportOverdue(*transfer);
  const uint64_t bySlabs = borrower_ != nullptr ? borrower_->abandon() : 0;
  const uint64_t byIpc = ipc_ != nullptr ? ipc_->abandon() : 0;
  return active_.size() + draining_.size() + bySlabs + byIpc;
}

void AgentThread::takeDown() {
  ipc_.reset();
  if (store_ != nullptr) {
    borrower_->letGo();
    // Its requests are the agent's.
    borrower_.reset();
    // Whoever holds one may still write there.
    store_->close(lender_->lentCount() > 0);
  }
  std::vector<std::shared_ptr<Region>> regions;
  {
    std::lock_guard<std::mutex> lock(core_->mutex);
    core_->regions.forEach(
        [&](uint64_t, const std::shared_ptr<Region>& region) { regions.push_back(region); });
  }
  for (const auto& region : regions) {
    if (agent_ && region->list) api().deregister_mem(agent_.get(), region->list.get(), nullptr);
    region->list.reset();
  }
  notifications_.reset();
  choices_.clear();
  backends_.clear();
  agent_.reset();
  // Only now: until the agent is gone, the library may hold on to the pages.
  for (const auto& region : regions) region->pin.reset();
}

}  // namespace kvferry
