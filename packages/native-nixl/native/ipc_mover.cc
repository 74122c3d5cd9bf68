#include "ipc_mover.h"

#include <algorithm>
#include <utility>

#include "ipc_launch.h"
#include "limits.h"

namespace kvferry {

IpcMover::IpcMover(TransferHost& host, std::shared_ptr<CudaDevice> device, const IpcConfig& config)
    : host_(host),
      device_(std::move(device)),
      ctaCount_(config.ctaCount > 0 ? config.ctaCount
                                    : static_cast<uint64_t>(device_->processorCount())) {}

Result IpcMover::meet(const Peer& peer, IpcFacts facts) {
  std::unique_ptr<IpcMappings> mappings;
  Result opened = IpcMappings::open(device_, std::move(facts), &mappings);
  if (opened.ok()) links_[&peer] = std::make_unique<Link>(std::move(mappings));
  return opened;
}

void IpcMover::forget(const Peer& peer) { links_.erase(&peer); }

void IpcMover::processEnded(const ProcessId& process) {
  for (const auto& [peer, link] : links_) {
    const bool isIt = link->mappings != nullptr && link->mappings->process() == process;
    // It says so itself; who was wrong about a process that lives loses nothing.
    if (isIt) static_cast<void>(checkAlive(*link));
  }
}

void IpcMover::add(std::unique_ptr<Transfer> transfer) { waiting_.push_back(std::move(transfer)); }

bool IpcMover::hasTimelyTasks() const noexcept {
  return !waiting_.empty() || std::any_of(running_.begin(), running_.end(),
                                          [](const Job& job) { return !job.isOverdue; });
}

bool IpcMover::step(MonotonicTime now) {
  bool hasMoved = endDone();
  hasMoved = endLate(now) || hasMoved;
  return launchWaiting() || hasMoved;
}

bool IpcMover::endDone() {
  bool hasMoved = false;
  while (!running_.empty()) {
    bool isDone = false;
    Result result = running_.front().lane->isDone(&isDone);
    if (!isDone) break;
    Job job = std::move(running_.front());
    running_.pop_front();
    // Of a lane that failed it isn't known what it still does: it isn't used again.
    if (result.ok()) device_->give(std::move(job.lane));
    linkOf(*job.transfer).runningCount -= 1;
    end(std::move(job), std::move(result));
    hasMoved = true;
  }
  return hasMoved;
}

void IpcMover::end(Job job, Result result) {
  if (result.ok()) result = checkAlive(linkOf(*job.transfer));
  if (result.ok()) result = sendNotification(host_, *job.transfer);
  host_.endTransfer(std::move(job.transfer), job.isOverdue, std::move(result));
}

bool IpcMover::endLate(MonotonicTime now) {
  for (Job& job : running_) {
    if (job.isOverdue || job.transfer->deadline > now) continue;
    job.isOverdue = true;
    host_.tellOverdue(*job.transfer);
  }
  bool hasMoved = false;
  for (auto each = waiting_.begin(); each != waiting_.end();) {
    if ((*each)->deadline > now) {
      ++each;
      continue;
    }
    std::unique_ptr<Transfer> transfer = std::move(*each);
    each = waiting_.erase(each);
    Result late = Result::failure(Status::kDeadline, "post", "not launched before its deadline");
    late.value = transfer->deadlineMs;
    host_.endTransfer(std::move(transfer), false, std::move(late));
    hasMoved = true;
  }
  return hasMoved;
}

bool IpcMover::launchWaiting() {
  bool hasMoved = false;
  while (!waiting_.empty() && running_.size() < limits::kIpcLaunchesMax) {
    std::unique_ptr<Transfer> transfer = std::move(waiting_.front());
    waiting_.pop_front();
    launch(std::move(transfer));
    hasMoved = true;
  }
  return hasMoved;
}

void IpcMover::launch(std::unique_ptr<Transfer> transfer) {
  Link& link = linkOf(*transfer);
  Job job;
  transfer->postedAt = MonotonicClock::now();
  transfer->isPosted = true;
  Result result = checkAlive(link);
  if (result.ok()) {
    const CudaLane* const before = running_.empty() ? nullptr : running_.back().lane.get();
    result = launchIpc(*device_, *link.mappings, ctaCount_, before, *transfer, &job.lane);
  }
  transfer->completion.postUs =
      std::chrono::duration<double, std::micro>(MonotonicClock::now() - transfer->postedAt).count();
  if (transfer->waiter != nullptr) std::exchange(transfer->waiter, nullptr)->arrive();
  if (!result.ok()) return host_.endTransfer(std::move(transfer), false, std::move(result));
  job.transfer = std::move(transfer);
  link.runningCount += 1;
  running_.push_back(std::move(job));
}

Result IpcMover::checkAlive(Link& link) {
  if (!link.watch.hasEnded()) return Result::success();
  if (link.runningCount == 0) link.mappings.reset();
  return Result::nixlFailure("ipc", kNixlNotFound, "the peer's process has ended");
}

uint64_t IpcMover::abandon() {
  for (auto& transfer : std::exchange(waiting_, {})) {
    host_.endTransfer(std::move(transfer), false,
                      Result::failure(Status::kClosed, "post", "the agent was closed"));
  }
  for (Job& job : running_) {
    if (!job.isOverdue) host_.tellOverdue(*job.transfer);
    job.isOverdue = true;
  }
  return running_.size();
}

}  // namespace kvferry
