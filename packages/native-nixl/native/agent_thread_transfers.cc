// The agent's thread: transfers from the queue to their final status. The rule that everything here
// serves: memory, tables and peers stay in use until the library has answered a final status,
// because a posted transfer goes on writing whatever is released, deregistered or removed.
#include <algorithm>
#include <utility>

#include "agent_thread.h"

namespace kvferry {
namespace {

double microseconds(MonotonicClock::duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

Result pastDeadline(const Transfer& transfer, const char* detail) {
  Result result = Result::failure(Status::kDeadline, "post", detail);
  result.value = transfer.deadlineMs;
  return result;
}

}  // namespace

void AgentThread::postOrHold(std::unique_ptr<Transfer> transfer) {
  FenceState state = core_->fenceState(transfer->fence);
  if (state.due <= MonotonicClock::now()) {
    post(std::move(transfer));
    return;
  }
  // What the fence stands for changes bytes, not where they lie: when it opens only the post is left.
  // A failure is tried again then, and told then: before, nothing is told of what waits.
  const bool isPreparable = isReady_ && state.failure.ok() && transfer->path == Path::kDescriptors;
  if (isPreparable && !prepare(*transfer).ok()) transfer->request.release();
  hold(std::move(transfer), std::move(state));
}

void AgentThread::hold(std::unique_ptr<Transfer> transfer, FenceState state) {
  if (!state.failure.ok()) {
    finish(std::move(transfer), TransferOutcome::kFailed, std::move(state.failure));
    return;
  }
  heldDue_ = std::min(heldDue_, state.due);
  const bool isKnown =
      std::any_of(awaited_.begin(), awaited_.end(),
                  [&](const AwaitedEvent& each) { return each.fence == transfer->fence; });
  if (state.event != nullptr && !isKnown) {
    awaited_.push_back({transfer->fence, std::move(state.event)});
  }
  held_.push_back(std::move(transfer));
}

void AgentThread::askEvents() {
  // What opens or fails is news of the fence, which `postHeld` looks at.
  for (const AwaitedEvent& each : awaited_) core_->settleEvent(each);
}

void AgentThread::postHeld() {
  if (held_.empty()) return;
  const uint64_t epoch = core_->fenceEpoch.load();
  const MonotonicTime now = MonotonicClock::now();
  bool isDue = heldDue_ <= now;
  for (const auto& transfer : held_) isDue = isDue || transfer->deadline <= now;
  if (epoch == fenceEpochSeen_ && !isDue) return;
  fenceEpochSeen_ = epoch;
  heldDue_ = MonotonicTime::max();
  awaited_.clear();
  for (auto& transfer : std::exchange(held_, {})) {
    FenceState state = core_->fenceState(transfer->fence);
    // `post` refuses what is past its deadline.
    if (transfer->deadline <= now || state.due <= now) {
      post(std::move(transfer));
    } else {
      hold(std::move(transfer), std::move(state));
    }
  }
}

Result AgentThread::createRequest(Transfer& transfer) {
  buildPlan(transfer.local.view(), transfer.remote.view(), &plan_);
  transfer.completion.descriptorsBeforeMerge = plan_.descriptorsBeforeMerge;
  transfer.completion.descriptorsAfterMerge = plan_.descriptors.size();
  NixlHandle handle = nullptr;
  const MemoryPlace here = transfer.local.entry->table.place;
  const MemoryPlace there = transfer.remote.entry->table.place;
  if (api().create_xfer_dlist(nixlMemory(here), &handle) != kNixlSuccess) {
    return Result::nixlFailure("create_xfer_dlist", kNixlBackend);
  }
  const NixlTransferList local(api(), handle);
  if (api().create_xfer_dlist(nixlMemory(there), &handle) != kNixlSuccess) {
    return Result::nixlFailure("create_xfer_dlist", kNixlBackend);
  }
  const NixlTransferList remote(api(), handle);
  for (const CopyDescriptor& each : plan_.descriptors) {
    int status = api().xfer_dlist_add_desc(local.get(), each.local, each.bytes, here.device);
    if (status == kNixlSuccess) {
      status = api().xfer_dlist_add_desc(remote.get(), each.remote, each.bytes, there.device);
    }
    if (status != kNixlSuccess) return Result::nixlFailure("xfer_dlist_add_desc", status);
  }
  const int operation = transfer.direction == Direction::kRead ? kNixlRead : kNixlWrite;
  Result created = createTransfer(operation, local.get(), remote.get(), *transfer.peer, &handle);
  if (!created.ok()) return created;
  transfer.request = TransferRequest(api(), agent_.get(), handle);
  return Result::success();
}

Result AgentThread::createOptions(Transfer& transfer) {
  NixlHandle handle = nullptr;
  int status = api().create_opt_args(&handle);
  if (status == kNixlSuccess) {
    transfer.options = NixlOptions(api(), handle);
    status = api().opt_args_set_notif_msg(handle, transfer.notification.data(),
                                          transfer.notification.size());
  }
  if (status == kNixlSuccess) status = api().opt_args_set_has_notif(handle, true);
  return status == kNixlSuccess ? Result::success()
                                : Result::nixlFailure("opt_args_set_notif_msg", status);
}

Result AgentThread::prepare(Transfer& transfer) {
  Result created = createRequest(transfer);
  return created.ok() && transfer.hasNotification ? createOptions(transfer) : created;
}

void AgentThread::post(std::unique_ptr<Transfer> transfer) {
  transfer->takenAt = MonotonicClock::now();
  if (transfer->deadline <= transfer->takenAt) {
    Result late = pastDeadline(*transfer, "not posted before its deadline");
    finish(std::move(transfer), TransferOutcome::kFailed, std::move(late));
    return;
  }
  if (!isReady_) {
    finish(std::move(transfer), TransferOutcome::kFailed,
           Result::failure(Status::kBroken, "agent", "the agent is broken"));
    return;
  }
  if (transfer->path != Path::kDescriptors) {
    core_->counters.transfersPosted += 1;
    if (transfer->path == Path::kIpc) return ipc_->add(std::move(transfer));
    return borrower_->add(std::move(transfer));
  }
  if (!transfer->request.isMade()) {
    Result prepared = prepare(*transfer);
    if (!prepared.ok()) {
      finish(std::move(transfer), TransferOutcome::kFailed, std::move(prepared));
      return;
    }
  }
  transfer->postedAt = MonotonicClock::now();
  transfer->completion.prepareUs = microseconds(transfer->postedAt - transfer->takenAt);
  const int status = transfer->request.post(transfer->options.get());
  const MonotonicTime now = MonotonicClock::now();
  transfer->options.reset();
  transfer->isPosted = true;
  transfer->completion.postUs = microseconds(now - transfer->takenAt);
  core_->counters.transfersPosted += 1;
  if (transfer->waiter != nullptr) std::exchange(transfer->waiter, nullptr)->arrive();
  noteActivity();
  if (status == kNixlInProgress) {
    active_.push_back(std::move(transfer));
  } else if (status == kNixlSuccess) {
    finish(std::move(transfer), TransferOutcome::kDone, Result::success());
  } else {
    finish(std::move(transfer), TransferOutcome::kFailed,
           Result::nixlFailure("post_xfer_req", status));
  }
}

void AgentThread::pollTransfers() {
  if (!active_.empty()) pollList(active_, false);
  if (draining_.empty()) return;
  const MonotonicTime now = MonotonicClock::now();
  if (now - drainingPolledAt_ < std::chrono::microseconds(limits::kDrainingPollPauseUs)) return;
  drainingPolledAt_ = now;
  pollList(draining_, true);
}

void AgentThread::pollList(std::vector<std::unique_ptr<Transfer>>& list, bool isDraining) {
  core_->counters.polls += 1;
  const MonotonicTime now = MonotonicClock::now();
  // Taken out while it is worked on: `finish` and `draining_` may be touched inside.
  std::vector<std::unique_ptr<Transfer>> polled;
  polled.swap(list);
  for (auto& transfer : polled) {
    const int status = transfer->request.poll();
    if (status == kNixlInProgress) {
      const bool isLate = !isDraining && transfer->deadline <= now;
      if (isLate) {
        core_->counters.transfersDraining += 1;
        reportOverdue(*transfer);
      }
      (isLate ? draining_ : list).push_back(std::move(transfer));
      continue;
    }
    if (isDraining) core_->counters.transfersDraining -= 1;
    const bool isDone = status == kNixlSuccess;
    finish(std::move(transfer), isDone ? TransferOutcome::kDone : TransferOutcome::kFailed,
           isDone ? Result::success() : Result::nixlFailure("get_xfer_status", status));
    noteActivity();
  }
}

void AgentThread::reportOverdue(const Transfer& transfer) {
  TransferCompletion completion = transfer.completion;
  completion.handle = transfer.handle;
  completion.direction = transfer.direction;
  completion.peer = transfer.peer->name;
  completion.outcome = TransferOutcome::kOverdue;
  completion.result = pastDeadline(transfer, "no final status; it may still touch memory");
  core_->completions.push(std::move(completion));
}

void AgentThread::finish(std::unique_ptr<Transfer> transfer, TransferOutcome outcome,
                         Result result) {
  const MonotonicTime now = MonotonicClock::now();
  // Before the completion is told: who hears of it may count what the library still holds for us.
  transfer->request.release();
  transfer->options.reset();
  bool isPeerGone = false;
  {
    std::lock_guard<std::mutex> lock(core_->mutex);
    transfer->local.entry->openTransfers -= 1;
    transfer->remote.entry->openTransfers -= 1;
    transfer->peer->openTransfers -= 1;
    isPeerGone = transfer->peer->isRemoved && transfer->peer->openTransfers == 0;
  }
  if (isPeerGone && isReady_) {
    const auto known = loadedPeers_.find(transfer->peer->name);
    if (known != loadedPeers_.end() && known->second == transfer->peer) {
      invalidate(transfer->peer->name);
    }
  }
  const bool wasTaken = transfer->takenAt != MonotonicTime();
  TransferCompletion completion = std::move(transfer->completion);
  completion.handle = transfer->handle;
  completion.outcome = outcome;
  completion.direction = transfer->direction;
  completion.peer = transfer->peer->name;
  completion.result = std::move(result);
  completion.queuedUs = microseconds((wasTaken ? transfer->takenAt : now) - transfer->enqueuedAt);
  if (transfer->isPosted) completion.wireUs = microseconds(now - transfer->postedAt);
  core_->counters.transfersOpen -= 1;
  if (outcome == TransferOutcome::kDone) {
    core_->counters.transfersDone += 1;
    core_->counters.bytesMoved += completion.bytes;
  } else {
    core_->counters.transfersFailed += 1;
  }
  // "Done" is about the bytes; the message may still be in a queue of ours.
  if (transfer->hasNotification) startFlush();
  if (transfer->waiter != nullptr) std::exchange(transfer->waiter, nullptr)->arrive();
  core_->completions.push(std::move(completion));
}

}  // namespace kvferry
