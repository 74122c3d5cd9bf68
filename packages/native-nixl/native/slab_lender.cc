#include "slab_lender.h"

#include <algorithm>

#include "limits.h"

namespace kvferry {
namespace {

constexpr size_t kEndedMax = limits::kSlabBorrowerCountMax;

}  // namespace

SlabLender::SlabLender(SlabStore& store, const RegisteredRanges& ranges)
    : store_(store), ranges_(ranges), slabs_(store.config().slabCount) {
  for (uint64_t i = 0; i < slabs_.size(); i++) publish(i);
}

bool SlabLender::take(const uint8_t* bytes, size_t sizeBytes, MonotonicTime now) {
  if (!isSlabMessage(store_.facts().token, bytes, sizeBytes)) return false;
  SlabMessage message;
  if (!decodeSlabMessage(bytes, &message)) {
    refusedCount_ += 1;
    return true;
  }
  const auto borrower = borrowers_.find(message.owner);
  if (borrower != borrowers_.end()) borrower->second.heardAt = now;
  switch (message.kind) {
    case SlabMessageKind::kWant:
      want(message, now);
      break;
    case SlabMessageKind::kReturn:
      giveBack(message);
      break;
    case SlabMessageKind::kFull:
    case SlabMessageKind::kFill:
      work(message);
      break;
  }
  return true;
}

void SlabLender::want(const SlabMessage& message, MonotonicTime now) {
  if (message.count == 0) {
    drop(message.owner);
    return lend();
  }
  const bool isKnown = borrowers_.count(message.owner) > 0;
  const bool isFull = !isKnown && borrowers_.size() >= limits::kSlabBorrowerCountMax;
  if (isFull || message.owner == 0 || isBarred(message.process)) {
    refusedCount_ += 1;
    return;
  }
  Borrower& borrower = borrowers_[message.owner];
  if (!isKnown) borrower.process = message.process;
  borrower.heardAt = now;
  borrower.wanted = std::min<uint64_t>(message.count, slabs_.size());
  lend();
}

void SlabLender::giveBack(const SlabMessage& message) {
  Slab* const slab = find(message);
  if (slab == nullptr) return;
  free(*slab);
  lend();
}

void SlabLender::work(const SlabMessage& message) {
  Slab* const slab = find(message);
  // A message twice, or of an earlier loan: nothing to do.
  if (slab == nullptr || slab->stage != Stage::kIdle || message.turn != slab->record.turn + 1) {
    refusedCount_ += slab == nullptr ? 1 : 0;
    return;
  }
  slab->message = message;
  openCount_ += 1;
  const SlabAnswer answered = start(*slab);
  if (answered != SlabAnswer::kNone) return answer(*slab, answered);
  if (slab->job == nullptr) goOn(*slab);
}

SlabAnswer SlabLender::start(Slab& slab) {
  const SlabMessage& message = slab.message;
  const uint64_t slabBytes = store_.config().slabBytes;
  slab.stage = Stage::kFetching;
  slab.isListed = false;
  if (message.payloadBytes == 0 || message.payloadBytes > slabBytes) return SlabAnswer::kMalformed;
  const uint64_t listAt = alignedSlabBytes(message.payloadBytes);
  if (message.listBytes > slabBytes - listAt) return SlabAnswer::kMalformed;
  if (store_.mover().canMoveListed(message.count)) return moveListed(slab);
  // The list comes first: its borrower can still write there, and what was checked must be what is used.
  const Result started =
      store_.mover().fetch(store_.lent(message.slab) + listAt, message.listBytes, &slab.job);
  return started.ok() ? SlabAnswer::kNone : SlabAnswer::kFailed;
}

/** In one go: the GPU checks every piece of the list, then each again as it moves what it says. */
SlabAnswer SlabLender::moveListed(Slab& slab) {
  const SlabMessage& message = slab.message;
  if (rangesVersion_ != ranges_.version()) {
    // Those that check against the former ones end first.
    settle();
    if (!store_.mover().setRanges(ranges_.forKernel()).ok()) return SlabAnswer::kFailed;
    rangesVersion_ = ranges_.version();
  }
  slab.stage = Stage::kMoving;
  slab.isListed = true;
  const SlabPart part{0, message.payloadBytes, message.listBytes, message.count};
  const bool isFull = message.kind == SlabMessageKind::kFull;
  const Result started =
      store_.mover().moveListed(part, store_.lent(message.slab), isFull, &slab.job);
  return started.ok() ? SlabAnswer::kNone : SlabAnswer::kFailed;
}

SlabAnswer SlabLender::move(Slab& slab) {
  const SlabMessage& message = slab.message;
  const uint64_t payload = store_.lent(message.slab);
  store_.mover().fetched(slab.job, payload + alignedSlabBytes(message.payloadBytes),
                         message.listBytes, &list_);
  store_.mover().close(&slab.job);
  if (!readPieceList(list_.data(), list_.size(), message.payloadBytes, &pieces_)) {
    return SlabAnswer::kMalformed;
  }
  copies_.clear();
  uint64_t at = payload;
  for (const SlabPiece& piece : pieces_) {
    if (!ranges_.contains(piece)) return SlabAnswer::kNotRegistered;
    const bool isFull = message.kind == SlabMessageKind::kFull;
    copies_.add(isFull ? piece.address : at, isFull ? at : piece.address, piece.bytes);
    at += piece.bytes;
  }
  const Result started = store_.mover().start(copies_.pieces, {}, 0, &slab.job);
  return started.ok() ? SlabAnswer::kNone : SlabAnswer::kFailed;
}

/** A stage is over. */
void SlabLender::goOn(Slab& slab) {
  if (slab.stage == Stage::kMoving) {
    const uint64_t found = slab.isListed ? store_.mover().answerOf(slab.job) : 0;
    store_.mover().close(&slab.job);
    return answer(slab, found == 0                             ? SlabAnswer::kDone
                        : found == kernels::kListNotRegistered ? SlabAnswer::kNotRegistered
                                                               : SlabAnswer::kMalformed);
  }
  slab.stage = Stage::kMoving;
  const SlabAnswer answered = move(slab);
  if (answered != SlabAnswer::kNone) return answer(slab, answered);
  if (slab.job == nullptr) answer(slab, SlabAnswer::kDone);
}

void SlabLender::answer(Slab& slab, SlabAnswer answered) {
  slab.stage = Stage::kIdle;
  openCount_ -= 1;
  slab.record.answer = answered;
  slab.record.turn = slab.message.turn;
  if (answered == SlabAnswer::kDone) {
    movedCount_ += 1;
  } else {
    refusedCount_ += 1;
  }
  publish(slab.message.slab);
}

bool SlabLender::step() {
  if (openCount_ == 0) return false;
  bool hasMoved = false;
  for (Slab& slab : slabs_) {
    if (slab.stage == Stage::kIdle) continue;
    bool isOver = false;
    // The lane keeps what is to be read: the list, or the answer.
    const Result result = store_.mover().poll(&slab.job, &isOver, true);
    if (!isOver) continue;
    hasMoved = true;
    if (result.ok()) {
      goOn(slab);
    } else {
      answer(slab, SlabAnswer::kFailed);
    }
  }
  return hasMoved;
}

void SlabLender::settle() noexcept {
  // What is only fetched hasn't been checked yet, and will be against what is registered then.
  for (Slab& slab : slabs_) {
    if (slab.stage == Stage::kMoving) store_.mover().settle(slab.job);
  }
}

SlabLender::Slab* SlabLender::find(const SlabMessage& message) {
  if (message.slab >= slabs_.size()) return nullptr;
  Slab& slab = slabs_[message.slab];
  const bool isHolder = slab.record.state == SlabState::kLent &&
                        slab.record.owner == message.owner &&
                        slab.record.generation == message.generation;
  return isHolder ? &slab : nullptr;
}

void SlabLender::free(Slab& slab) {
  if (slab.stage != Stage::kIdle) {
    // Whoever hears that it is free may use the memory at once.
    store_.mover().settle(slab.job);
    // Not to be used again: what comes of it is unknown.
    slab.job.reset();
    slab.stage = Stage::kIdle;
    openCount_ -= 1;
  }
  const auto borrower = borrowers_.find(slab.record.owner);
  if (borrower != borrowers_.end()) borrower->second.held -= 1;
  slab.record.state = SlabState::kFree;
  slab.record.owner = 0;
  lentCount_ -= 1;
}

void SlabLender::drop(uint64_t owner) {
  for (Slab& slab : slabs_) {
    if (slab.record.state == SlabState::kLent && slab.record.owner == owner) free(slab);
  }
  borrowers_.erase(owner);
}

void SlabLender::lend() {
  for (uint64_t i = 0; i < slabs_.size(); i++) {
    Slab& slab = slabs_[i];
    if (slab.record.state == SlabState::kLent) continue;
    // Whoever has the fewest, and waited longest.
    auto next = borrowers_.end();
    for (auto it = borrowers_.begin(); it != borrowers_.end(); ++it) {
      const Borrower& each = it->second;
      if (each.held >= each.wanted) continue;
      const bool isFirst = next == borrowers_.end();
      const Borrower& best = isFirst ? each : next->second;
      const bool isPoorer = each.held < best.held || (each.held == best.held && each.turn < best.turn);
      if (isFirst || isPoorer) next = it;
    }
    if (next == borrowers_.end()) break;
    next->second.held += 1;
    next->second.turn = ++turns_;
    lentCount_ += 1;
    slab.record.owner = next->first;
    slab.record.generation += 1;
    slab.record.turn = 0;
    slab.record.state = SlabState::kLent;
    slab.record.answer = SlabAnswer::kNone;
  }
  const bool isAnyWaiting =
      std::any_of(borrowers_.begin(), borrowers_.end(),
                  [](const auto& each) { return each.second.held == 0 && each.second.wanted > 0; });
  const bool isRefusing = suspectCount_ == slabs_.size();
  for (uint64_t i = 0; i < slabs_.size(); i++) {
    slabs_[i].record.isRecalled = isAnyWaiting;
    slabs_[i].record.isRefusing = isRefusing;
    publish(i);
  }
}

void SlabLender::processEnded(const ProcessId& process) {
  ended_.push_back(process);
  if (ended_.size() > kEndedMax) ended_.pop_front();
  std::vector<uint64_t> gone;
  for (const auto& [owner, borrower] : borrowers_) {
    if (borrower.process == process) gone.push_back(owner);
  }
  for (const uint64_t owner : gone) drop(owner);
  if (!gone.empty()) lend();
}

bool SlabLender::isBarred(const ProcessId& process) const {
  return std::find(ended_.begin(), ended_.end(), process) != ended_.end();
}

void SlabLender::check(MonotonicTime now) {
  if (borrowers_.empty() && suspectCount_ == 0) return;
  if (now - checkedAt_ < std::chrono::milliseconds(limits::kSlabCheckMs)) return;
  checkedAt_ = now;
  std::vector<uint64_t> gone;
  uint64_t suspects = 0;
  for (const auto& [owner, borrower] : borrowers_) {
    if (hasProvablyEnded(borrower.process)) {
      gone.push_back(owner);
    } else if (now - borrower.heardAt > std::chrono::milliseconds(limits::kSlabSilenceMs)) {
      suspects += borrower.held;
    }
  }
  const bool isChanged = suspects != suspectCount_ || !gone.empty();
  suspectCount_ = suspects;
  for (const uint64_t owner : gone) drop(owner);
  if (isChanged) lend();
}

void SlabLender::publish(uint64_t index) {
  Slab& slab = slabs_[index];
  slab.version += 1;
  publishSlabRecord(slab.record, slab.version, store_.record(index));
}

}  // namespace kvferry
