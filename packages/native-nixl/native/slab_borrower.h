// The initiator's half of the path `slabs`: one link for each peer that transfers go to, over the slabs
// that the agent fills itself. The agent's thread only.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "slab_link.h"

namespace kvferry {

class SlabBorrower {
 public:
  SlabBorrower(SlabHost& host, SlabStore& store);
  SlabBorrower(const SlabBorrower&) = delete;
  SlabBorrower& operator=(const SlabBorrower&) = delete;

  /** Both agents have slabs. */
  void add(std::unique_ptr<Transfer> transfer);
  /** True: something moved. */
  bool step(MonotonicTime now);
  /** Nothing of it is open; its slabs go back. */
  void forget(const Peer& peer);
  void processEnded(const ProcessId& process);
  void letGo();
  /** As `SlabLink::abandon`. */
  uint64_t abandon();

  bool hasTasks() const noexcept;
  /** Something of ours may move, or slabs are held. */
  bool isBusy() const noexcept;
  uint64_t movedCount() const noexcept;

 private:
  SlabHost& host_;
  SlabStore& store_;
  /** Numbers of our own slabs that are free. */
  std::vector<uint64_t> own_;
  std::unordered_map<const Peer*, std::unique_ptr<SlabLink>> links_;
  /** Forgotten, perhaps from within; gone with the next step. */
  std::vector<std::unique_ptr<SlabLink>> leaving_;
  uint64_t nextOwner_;
  uint64_t movedBefore_ = 0;
};

}  // namespace kvferry
