#include "slab_link.h"

#include <algorithm>
#include <utility>

#include "limits.h"

namespace kvferry {
namespace {

void addPostTime(Transfer& transfer, MonotonicTime since) {
  transfer.completion.postUs +=
      std::chrono::duration<double, std::micro>(MonotonicClock::now() - since).count();
}

}  // namespace

SlabLink::SlabLink(SlabHost& host, SlabStore& store, std::vector<uint64_t>& own,
                   std::shared_ptr<Peer> peer, uint8_t* mirror, uint64_t& nextOwner)
    : host_(host),
      store_(store),
      own_(own),
      peer_(std::move(peer)),
      mirror_(mirror),
      owner_(nextOwner++),
      nextOwner_(nextOwner),
      returned_(peer_->slabs.slabCount, 0) {}

void SlabLink::add(std::unique_ptr<Transfer> transfer) { tasks_.emplace_back(std::move(transfer)); }

bool SlabLink::hasTimelyTasks() const noexcept {
  return std::any_of(tasks_.begin(), tasks_.end(), [](const auto& task) { return !task.isOverdue; });
}

bool SlabLink::step(MonotonicTime now) {
  bool hasMoved = look(now);
  hasMoved = pollLoans(now) || hasMoved;
  hasMoved = use(now) || hasMoved;
  hasMoved = finishTasks(now) || hasMoved;
  ask(now);
  return hasMoved;
}

/** Sends as many slabs as there are: ours to fill, and the peer's to send to. */
bool SlabLink::use(MonotonicTime now) {
  if (isUnreachable_) return false;
  bool hasMoved = false;
  for (SlabTask& task : tasks_) {
    for (Loan& loan : loans_) {
      if (task.isTaken() || own_.empty()) break;
      if (loan.phase != Phase::kIdle) continue;
      fill(loan, task);
      usedAt_ = now;
      hasMoved = true;
    }
  }
  return hasMoved;
}

void SlabLink::fill(Loan& loan, SlabTask& task) {
  Transfer& transfer = *task.transfer;
  const MonotonicTime now = MonotonicClock::now();
  if (!transfer.isPosted) transfer.postedAt = now;
  transfer.isPosted = true;
  loan.own = own_.back();
  own_.pop_back();
  loan.task = &task;
  loan.phase = Phase::kFilling;
  task.outstanding += 1;
  Result started = Result::success();
  if (!task.isOpened) {
    task.isOpened = true;
    started = store_.mover().open(transfer.local.view(), transfer.remote.view(), &task.stream);
  }
  if (started.ok()) started = cut(loan);
  addPostTime(transfer, now);
  if (!started.ok() || loan.job == nullptr) copied(loan, std::move(started));
}

/** The next part of the loan's task, on its way into our slab. */
Result SlabLink::cut(Loan& loan) {
  SlabTask& task = *loan.task;
  const uint64_t slabBytes = std::min(store_.config().slabBytes, peer_->slabs.slabBytes);
  const uint64_t slab = store_.own(loan.own);
  if (task.stream != nullptr) {
    loan.part = cutNext(task, slabBytes);
    return store_.mover().fill(*task.stream, loan.part, slab, task.isRead(), &loan.job);
  }
  SideCursor local = task.local;
  loan.part = cutSlab(task, slabBytes, slab, &local, &copies_);
  loan.local = local;
  return store_.mover().start(copies_.pieces, copies_.list,
                              slab + alignedSlabBytes(loan.part.payloadBytes), &loan.job);
}

/** The slab is full, or for a READ has its list. */
void SlabLink::write(Loan& loan) {
  SlabTask& task = *loan.task;
  Transfer& transfer = *task.transfer;
  const MonotonicTime now = MonotonicClock::now();
  const uint64_t listAt = alignedSlabBytes(loan.part.payloadBytes);
  // For a READ only the list travels: the peer fills in the payload.
  const uint64_t start = task.isRead() ? listAt : 0;
  const uint64_t remote = peer_->slabs.slabsAddress + loan.slab * peer_->slabs.slabBytes;
  const SlabSpan span{store_.own(loan.own) + start, remote + start,
                      listAt + loan.part.listBytes - start, store_.facts().place,
                      peer_->slabs.place};
  Result made = host_.makeRequest(false, *peer_, span, &loan.request);
  if (!made.ok()) return end(loan, std::move(made));
  SlabMessage message;
  message.kind = task.isRead() ? SlabMessageKind::kFill : SlabMessageKind::kFull;
  message.slab = static_cast<uint32_t>(loan.slab);
  message.owner = owner_;
  message.generation = loan.generation;
  message.turn = loan.turn + 1;
  message.payloadBytes = loan.part.payloadBytes;
  message.listBytes = loan.part.listBytes;
  message.count = loan.part.runCount;
  const SlabMessageFrame frame = encodeSlabMessage(peer_->slabs.token, message);
  transfer.completion.descriptorsAfterMerge += 1;
  loan.phase = Phase::kWriting;
  const int status = host_.startRequest(loan.request, &frame);
  addPostTime(transfer, now);
  const bool isLast = task.isTaken();
  if (status != kNixlInProgress) landed(loan, status);
  if (isLast && transfer.waiter != nullptr) {
    std::exchange(transfer.waiter, nullptr)->arrive();
  }
}

bool SlabLink::pollLoans(MonotonicTime now) {
  bool hasMoved = false;
  for (Loan& loan : loans_) {
    if (loan.phase == Phase::kFilling || loan.phase == Phase::kPlacing) {
      bool isOver = false;
      Result result = store_.mover().poll(&loan.job, &isOver);
      if (!isOver) continue;
      usedAt_ = now;
      copied(loan, std::move(result));
      hasMoved = true;
      continue;
    }
    if (loan.phase != Phase::kWriting && loan.phase != Phase::kReading) continue;
    const int status = loan.request.poll();
    if (status == kNixlInProgress) continue;
    landed(loan, status);
    hasMoved = true;
  }
  return hasMoved;
}

void SlabLink::copied(Loan& loan, Result result) {
  if (!result.ok() || loan.phase == Phase::kPlacing) return end(loan, std::move(result));
  write(loan);
}

/** A request of the library has its final status. */
void SlabLink::landed(Loan& loan, int status) {
  loan.request.release();
  if (status != kNixlSuccess) {
    return end(loan, Result::nixlFailure(loan.phase == Phase::kReading ? "read_slab" : "write_slab",
                                         status));
  }
  if (loan.phase == Phase::kReading) return place(loan);
  loan.turn += 1;
  loan.phase = Phase::kWaiting;
  // Its bytes are with the peer; a READ needs the slab again.
  if (!loan.task->isRead()) own_.push_back(loan.own);
}

/** The peer has filled the slab. */
void SlabLink::readBack(Loan& loan) {
  const uint64_t remote = peer_->slabs.slabsAddress + loan.slab * peer_->slabs.slabBytes;
  const SlabSpan span{store_.own(loan.own), remote, loan.part.payloadBytes, store_.facts().place,
                      peer_->slabs.place};
  Result made = host_.makeRequest(true, *peer_, span, &loan.request);
  if (!made.ok()) return end(loan, std::move(made));
  loan.phase = Phase::kReading;
  loan.task->transfer->completion.descriptorsAfterMerge += 1;
  const int status = host_.startRequest(loan.request, nullptr);
  if (status != kNixlInProgress) landed(loan, status);
}

/** What a READ asked for is in a slab of ours. */
void SlabLink::place(Loan& loan) {
  loan.phase = Phase::kPlacing;
  const uint64_t slab = store_.own(loan.own);
  Result started = Result::success();
  if (loan.task->stream != nullptr) {
    started = store_.mover().place(*loan.task->stream, loan.part, slab, &loan.job);
  } else {
    placeSlab(slab, loan.part.payloadBytes, *loan.local, &copies_);
    started = store_.mover().start(copies_.pieces, copies_.list, 0, &loan.job);
  }
  if (!started.ok() || loan.job == nullptr) copied(loan, std::move(started));
}

/** What the loan carried has arrived, or never will. Nothing of it is open any more. */
void SlabLink::end(Loan& loan, Result result) {
  SlabTask& task = *loan.task;
  const bool isOwnGiven = loan.phase == Phase::kWaiting && !task.isRead();
  if (!isOwnGiven) own_.push_back(loan.own);
  if (result.ok()) {
    movedCount_ += 1;
  } else if (task.error.ok()) {
    task.error = std::move(result);
  }
  task.outstanding -= 1;
  loan.task = nullptr;
  loan.phase = Phase::kIdle;
}

bool SlabLink::finishTasks(MonotonicTime now) {
  bool hasMoved = false;
  for (auto task = tasks_.begin(); task != tasks_.end();) {
    if (!task->isOverdue && task->transfer->deadline <= now) {
      task->isOverdue = true;
      host_.tellOverdue(*task->transfer);
    }
    // With the last transfer the peer may be forgotten: no request to it may be open then.
    const bool isHeldUp = tasks_.size() == 1 && isLooking_;
    if (!task->isTaken() || task->outstanding > 0 || isHeldUp) {
      ++task;
      continue;
    }
    Result result = settle(*task);
    const bool wasOverdue = task->isOverdue;
    std::unique_ptr<Transfer> transfer = std::move(task->transfer);
    task = tasks_.erase(task);
    if (tasks_.empty() && host_.isForgotten(*peer_)) letGo();
    host_.endTransfer(std::move(transfer), wasOverdue, std::move(result));
    hasMoved = true;
  }
  return hasMoved;
}

Result SlabLink::settle(SlabTask& task) {
  if (!task.error.ok()) return std::move(task.error);
  return sendNotification(host_, *task.transfer);
}

void SlabLink::lenderEnded(const Result& reason) {
  isUnreachable_ = true;
  for (SlabTask& task : tasks_) {
    if (task.error.ok()) task.error = reason;
  }
  for (Loan& loan : loans_) {
    if (loan.phase == Phase::kWaiting) end(loan, reason);
  }
  // What is idle is nobody's any more. What still is in a request ends with it.
  loans_.remove_if([](const Loan& loan) { return loan.phase == Phase::kIdle; });
}

uint64_t SlabLink::abandon() {
  for (auto task = tasks_.begin(); task != tasks_.end();) {
    if (task->outstanding > 0 || isLooking_) {
      if (!task->isOverdue) host_.tellOverdue(*task->transfer);
      task->isOverdue = true;
      ++task;
      continue;
    }
    std::unique_ptr<Transfer> transfer = std::move(task->transfer);
    const bool wasOverdue = task->isOverdue;
    task = tasks_.erase(task);
    host_.endTransfer(std::move(transfer), wasOverdue,
                      Result::failure(Status::kClosed, "post", "the agent was closed"));
  }
  return tasks_.size();
}

}  // namespace kvferry
