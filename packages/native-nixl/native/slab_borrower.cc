#include "slab_borrower.h"

#include <algorithm>
#include <random>
#include <utility>

namespace kvferry {

SlabBorrower::SlabBorrower(SlabHost& host, SlabStore& store) : host_(host), store_(store) {
  for (uint64_t i = 0; i < store.config().slabCount; i++) own_.push_back(i);
  std::random_device random;
  // Of no other agent: a lender tells borrowers apart by it.
  nextOwner_ = (uint64_t{random()} << 32 | random()) >> 1 | 1;
}

void SlabBorrower::add(std::unique_ptr<Transfer> transfer) {
  const std::shared_ptr<Peer> peer = transfer->peer;
  auto known = links_.find(peer.get());
  if (known == links_.end()) {
    uint8_t* const mirror = store_.takeMirror();
    if (mirror == nullptr) {
      return host_.endTransfer(std::move(transfer), false,
                               Result::overLimit("peerCountMax", limits::kPeerCountMax,
                                                 limits::kPeerCountMax));
    }
    auto link = std::make_unique<SlabLink>(host_, store_, own_, peer, mirror, nextOwner_);
    known = links_.emplace(peer.get(), std::move(link)).first;
  }
  known->second->add(std::move(transfer));
}

bool SlabBorrower::step(MonotonicTime now) {
  for (const auto& link : leaving_) {
    store_.giveMirror(link->mirror());
    movedBefore_ += link->movedCount();
  }
  leaving_.clear();
  // An end may make the thread forget a peer, and with it a link.
  std::vector<const Peer*> peers;
  for (const auto& [peer, link] : links_) peers.push_back(peer);
  bool hasMoved = false;
  for (const Peer* peer : peers) {
    const auto known = links_.find(peer);
    if (known == links_.end()) continue;
    hasMoved = known->second->step(now) || hasMoved;
  }
  return hasMoved;
}

void SlabBorrower::forget(const Peer& peer) {
  const auto known = links_.find(&peer);
  if (known == links_.end()) return;
  known->second->letGo();
  leaving_.push_back(std::move(known->second));
  links_.erase(known);
}

void SlabBorrower::processEnded(const ProcessId& process) {
  for (const auto& [peer, link] : links_) {
    if (peer->slabs.process == process) {
      link->lenderEnded(Result::nixlFailure("slab", kNixlNotFound, "the peer's process has ended"));
    }
  }
}

void SlabBorrower::letGo() {
  for (const auto& [peer, link] : links_) link->letGo();
}

uint64_t SlabBorrower::abandon() {
  uint64_t open = 0;
  for (const auto& [peer, link] : links_) open += link->abandon();
  return open;
}

bool SlabBorrower::hasTasks() const noexcept {
  return std::any_of(links_.begin(), links_.end(),
                     [](const auto& each) { return each.second->hasTasks(); });
}

bool SlabBorrower::isBusy() const noexcept {
  return std::any_of(links_.begin(), links_.end(), [](const auto& each) {
    const SlabLink& link = *each.second;
    return link.hasTimelyTasks() || (!link.hasTasks() && !link.isIdle());
  });
}

uint64_t SlabBorrower::movedCount() const noexcept {
  uint64_t count = movedBefore_;
  for (const auto& [peer, link] : links_) count += link->movedCount();
  for (const auto& link : leaving_) count += link->movedCount();
  return count;
}

}  // namespace kvferry
