// Fences of an agent: the moments that posts wait for, said beforehand, at once, or by a GPU. All synchronous on
// the JS side; a signal wakes the thread only if posts wait behind the fence. Events are asked without the lock.
#include <utility>

#include "agent_core.h"
#include "cuda_event.h"

namespace kvferry {
namespace {

/** Of the fences by event, those that are asked about when another fence is made: more than come anew. */
constexpr size_t kEventsPerFence = 2;

Result notAFence() {
  return Result::failure(Status::kInvalidHandle, "signalFence", "not a fence");
}

}  // namespace

Result Agent::createFence(uint64_t* fence) {
  core_->settleEvents(kEventsPerFence);
  std::lock_guard<std::mutex> lock(core_->mutex);
  Result open = core_->checkIntake();
  if (!open.ok()) return open;
  FenceSet& fences = core_->fences;
  fences.forgetDue(MonotonicClock::now());
  if (fences.open.size() >= limits::kFenceCountMax) {
    return Result::overLimit("fenceCountMax", fences.open.size(), limits::kFenceCountMax);
  }
  *fence = fences.next++;
  fences.open.emplace(*fence, OpenFence{});
  return Result::success();
}

Result Agent::signalFence(uint64_t fence, uint64_t delayUs) {
  bool isAwaited = false;
  {
    std::lock_guard<std::mutex> lock(core_->mutex);
    FenceSet& fences = core_->fences;
    if (!fences.wasMade(fence)) return notAFence();
    if (delayUs > 1'000 * limits::kFenceDelayMsMax) {
      return Result::outOfRange("signalFence", "the delay is over an hour");
    }
    const auto found = fences.open.find(fence);
    // What a GPU failed over never becomes ready, whoever says so.
    if (found == fences.open.end() || !found->second.failure.ok()) return Result::success();
    isAwaited = found->second.isAwaited;
    if (delayUs == 0) {
      fences.open.erase(found);
    } else {
      // The earliest of all that were said counts.
      const MonotonicTime due = MonotonicClock::now() + std::chrono::microseconds(delayUs);
      if (due >= found->second.due) return Result::success();
      found->second.due = due;
    }
  }
  // Engines make a fence in every step, and most have no post behind them.
  if (isAwaited) core_->wakeForFences();
  return Result::success();
}

Result Agent::signalFenceAfter(uint64_t fence, std::shared_ptr<CudaEvent> event) {
  const CudaDevice* const device = core_->config.device.get();
  if (device == nullptr || device != &event->device()) {
    return Result::failure(Status::kUnsupported, "fence by event",
                           device == nullptr
                               ? "the agent has no GPU: give it the option device"
                               : "the event is of another GPU than the agent");
  }
  if (!event->wasRecorded()) {
    return Result::outOfRange("signalFence", "the event was never recorded: nothing comes before it");
  }
  bool isAwaited = false;
  {
    std::lock_guard<std::mutex> lock(core_->mutex);
    FenceSet& fences = core_->fences;
    if (!fences.wasMade(fence)) return notAFence();
    const auto found = fences.open.find(fence);
    if (found == fences.open.end()) return Result::success();
    if (found->second.event != nullptr) {
      return Result::outOfRange("signalFence", "the fence has an event already");
    }
    found->second.event = std::move(event);
    fences.byEvent.push_back(fence);
    isAwaited = found->second.isAwaited;
  }
  if (isAwaited) core_->wakeForFences();
  return Result::success();
}

void AgentCore::wakeForFences() {
  fenceEpoch.fetch_add(1);
  queue.wake();
}

FenceState AgentCore::fenceState(uint64_t fence) const {
  FenceState state;
  if (fence == 0) return state;
  std::lock_guard<std::mutex> lock(mutex);
  const auto found = fences.open.find(fence);
  if (found == fences.open.end()) return state;
  state.due = found->second.due;
  state.event = found->second.event;
  state.failure = found->second.failure;
  return state;
}

void AgentCore::settleEvents(size_t count) {
  std::vector<AwaitedEvent> asked;
  {
    std::lock_guard<std::mutex> lock(mutex);
    while (asked.size() < count && !fences.byEvent.empty()) {
      const uint64_t fence = fences.byEvent.front();
      fences.byEvent.pop_front();
      const auto found = fences.open.find(fence);
      const bool isOpen = found != fences.open.end() && found->second.failure.ok();
      if (isOpen) asked.push_back({fence, found->second.event});
    }
  }
  for (const AwaitedEvent& each : asked) {
    if (settleEvent(each)) continue;
    std::lock_guard<std::mutex> lock(mutex);
    fences.byEvent.push_back(each.fence);
  }
}

bool AgentCore::settleEvent(const AwaitedEvent& awaited) {
  bool isDone = false;
  Result asked = awaited.event->isDone(&isDone);
  if (asked.ok() && !isDone) return false;
  bool isAwaited = false;
  {
    std::lock_guard<std::mutex> lock(mutex);
    const auto found = fences.open.find(awaited.fence);
    if (found == fences.open.end()) return true;
    isAwaited = found->second.isAwaited;
    if (asked.ok()) {
      fences.open.erase(found);
    } else {
      found->second.failure = std::move(asked);
      found->second.due = MonotonicTime::max();
    }
  }
  if (isAwaited) wakeForFences();
  return true;
}

void FenceSet::forgetDue(MonotonicTime now) {
  for (auto each = open.begin(); each != open.end();) {
    each = each->second.due <= now ? open.erase(each) : std::next(each);
  }
}

}  // namespace kvferry
