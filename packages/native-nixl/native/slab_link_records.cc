// What a link learns from the peer's records, and what it tells the peer.
#include <algorithm>
#include <utility>

#include "limits.h"
#include "slab_link.h"

namespace kvferry {
namespace {

constexpr std::chrono::milliseconds kCheckTime{limits::kSlabCheckMs};
constexpr std::chrono::milliseconds kLingerTime{limits::kSlabLingerMs};

Result refused(SlabAnswer answer) {
  return Result::nixlFailure("slab", kNixlNotFound,
                             answer == SlabAnswer::kNotRegistered
                                 ? "the peer's agent: its memory is not registered"
                             : answer == SlabAnswer::kFailed
                                 ? "the peer's agent: its GPU failed"
                                 : "the peer's agent: the slab makes no sense");
}

}  // namespace

/** Reads the records while something is waited for. */
bool SlabLink::look(MonotonicTime now) {
  if (isLooking_) {
    const int status = looking_.poll();
    if (status == kNixlInProgress) return false;
    isLooking_ = false;
    if (status == kNixlSuccess) {
      readRecords();
      return false;
    }
    unreachable(Result::nixlFailure("read_records", status), now);
    return true;
  }
  if (now < lookAgainAt_ || !isWaiting()) return false;
  if (!looking_.isMade()) {
    const SlabSpan span{reinterpret_cast<uint64_t>(mirror_), peer_->slabs.recordsAddress,
                        peer_->slabs.slabCount * kSlabRecordBytes, {}, {}};
    Result made = host_.makeRequest(true, *peer_, span, &looking_);
    if (!made.ok()) {
      unreachable(std::move(made), now);
      return true;
    }
  }
  const int status = host_.startRequest(looking_, nullptr);
  if (status == kNixlInProgress) {
    isLooking_ = true;
  } else if (status == kNixlSuccess) {
    readRecords();
  } else {
    unreachable(Result::nixlFailure("read_records", status), now);
    return true;
  }
  return false;
}

/** It may live. What only waits here can end; what the peer may still put in place needs proof. */
void SlabLink::unreachable(Result reason, MonotonicTime now) {
  looking_.release();
  isUnreachable_ = true;
  wanted_ = 0;
  lookAgainAt_ = now + kCheckTime;
  if (hasProvablyEnded(peer_->slabs.process)) return lenderEnded(reason);
  for (SlabTask& task : tasks_) {
    if (task.error.ok()) task.error = reason;
  }
  for (Loan& loan : loans_) {
    if (loan.phase == Phase::kWaiting && loan.task->isRead()) end(loan, reason);
  }
}

void SlabLink::readRecords() {
  isUnreachable_ = false;
  bool isRefusing = false;
  for (uint64_t slab = 0; slab < peer_->slabs.slabCount; slab++) {
    SlabRecord record;
    if (!parseSlabRecord(mirror_ + slab * kSlabRecordBytes, &record)) continue;
    isRecalled_ = record.isRecalled;
    isRefusing = record.isRefusing;
    const auto loan = std::find_if(loans_.begin(), loans_.end(),
                                   [&](const Loan& each) { return each.slab == slab; });
    if (loan != loans_.end()) {
      answered(*loan, record);
      continue;
    }
    const bool isNew = record.state == SlabState::kLent && record.owner == owner_ &&
                       record.generation > returned_[slab];
    if (!isNew) continue;
    Loan made;
    made.slab = slab;
    made.generation = record.generation;
    loans_.push_back(std::move(made));
    usedAt_ = MonotonicClock::now();
  }
  if (!isRefusing || !loans_.empty()) return;
  for (SlabTask& task : tasks_) {
    if (!task.error.ok()) continue;
    const uint64_t count = peer_->slabs.slabCount;
    task.error = Result::overLimit("slabCount", count, count);
  }
}

void SlabLink::answered(Loan& loan, const SlabRecord& record) {
  if (loan.phase != Phase::kWaiting) return;
  const bool isOurs = record.state == SlabState::kLent && record.owner == owner_ &&
                      record.generation == loan.generation;
  if (!isOurs) {
    // It takes nothing from us any more, so nothing of it is open.
    end(loan, Result::nixlFailure("slab", kNixlNotFound, "the peer took its slab back"));
    return;
  }
  if (record.turn != loan.turn) return;
  if (record.answer != SlabAnswer::kDone) return end(loan, refused(record.answer));
  if (loan.task->isRead()) return readBack(loan);
  end(loan, Result::success());
}

bool SlabLink::isWaiting() const noexcept {
  if (bytesWaiting() > 0 && !own_.empty()) {
    const bool hasIdle = std::any_of(loans_.begin(), loans_.end(), [](const Loan& loan) {
      return loan.phase == Phase::kIdle;
    });
    if (!hasIdle && loans_.size() < peer_->slabs.slabCount) return true;
  }
  return std::any_of(loans_.begin(), loans_.end(),
                     [](const Loan& loan) { return loan.phase == Phase::kWaiting; });
}

uint64_t SlabLink::bytesWaiting() const noexcept {
  uint64_t bytes = 0;
  for (const SlabTask& task : tasks_) bytes += task.isTaken() ? 0 : task.bytesLeft;
  return bytes;
}

void SlabLink::ask(MonotonicTime now) {
  if (isUnreachable_) return;
  const uint64_t slabBytes = std::min(store_.config().slabBytes, peer_->slabs.slabBytes);
  const uint64_t bytes = bytesWaiting();
  const uint64_t needed = bytes == 0 ? 0 : std::min(bytes / slabBytes + 1, peer_->slabs.slabCount);
  if (needed > wanted_) {
    SlabMessage message;
    message.kind = SlabMessageKind::kWant;
    message.count = needed;
    message.process = store_.facts().process;
    hasAsked_ = true;
    if (say(message)) {
      wanted_ = needed;
    } else {
      unreachable(Result::nixlFailure("gen_notif", kNixlBackend), now);
    }
    return;
  }
  const bool isOver = tasks_.empty() && now - usedAt_ >= kLingerTime;
  if (isOver && hasAsked_) return letGo();
  if (!isRecalled_) return;
  for (auto loan = loans_.begin(); loan != loans_.end();) {
    const auto each = loan++;
    if (each->phase != Phase::kIdle) continue;
    giveBack(*each);
    loans_.erase(each);
  }
}

void SlabLink::letGo() {
  if (!hasAsked_) return;
  // Also what was lent and not noticed yet.
  say({});
  loans_.clear();
  wanted_ = 0;
  hasAsked_ = false;
  owner_ = nextOwner_++;
}

void SlabLink::giveBack(Loan& loan) {
  returned_[loan.slab] = loan.generation;
  SlabMessage message;
  message.kind = SlabMessageKind::kReturn;
  message.slab = static_cast<uint32_t>(loan.slab);
  message.generation = loan.generation;
  say(message);
}

bool SlabLink::say(SlabMessage message) {
  message.owner = owner_;
  const SlabMessageFrame frame = encodeSlabMessage(peer_->slabs.token, message);
  return host_.send(*peer_, frame.data(), frame.size()) >= 0;
}

}  // namespace kvferry
