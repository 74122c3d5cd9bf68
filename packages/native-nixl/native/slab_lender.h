// The target's half of the path `slabs`: lends slabs to peers, and moves bytes between a lent slab and
// registered memory when its borrower says so. It starts no transfer and sends nothing: what it has to
// say stands in records, which borrowers READ. A slab is out of service until it is given back, or its
// borrower's process is proven to have ended. The agent's thread only.
#pragma once

#include <deque>
#include <unordered_map>
#include <vector>

#include "agent_state.h"
#include "registered_ranges.h"
#include "slab_store.h"
#include "slab_task.h"

namespace kvferry {

class SlabLender {
 public:
  SlabLender(SlabStore& store, const RegisteredRanges& ranges);
  SlabLender(const SlabLender&) = delete;
  SlabLender& operator=(const SlabLender&) = delete;

  /** False: not for us. Messages that make no sense are taken and counted. */
  bool take(const uint8_t* bytes, size_t sizeBytes, MonotonicTime now);
  /** Goes on with what a GPU has done. True: something was. */
  bool step();
  /** Waits for what GPUs still do (microseconds): afterwards nothing of it touches memory. */
  void settle() noexcept;
  /** Frees what that process held; nothing that it said is worked on any more. */
  void processEnded(const ProcessId& process);
  /** Looks for borrowers that ended, and counts suspects. Cheap when called too often. */
  void check(MonotonicTime now);

  /** Somebody holds or wants a slab: messages are to be expected. */
  bool isBusy() const noexcept { return !borrowers_.empty(); }
  uint64_t lentCount() const noexcept { return lentCount_; }
  uint64_t suspectCount() const noexcept { return suspectCount_; }
  uint64_t movedCount() const noexcept { return movedCount_; }
  uint64_t refusedCount() const noexcept { return refusedCount_; }

 private:
  struct Borrower {
    ProcessId process;
    uint64_t wanted = 0;
    uint64_t held = 0;
    /** When it got its last slab, for taking turns. */
    uint64_t turn = 0;
    MonotonicTime heardAt;
  };
  /** What is done about a message: on the host all at once. */
  enum class Stage : uint8_t { kIdle, kFetching, kMoving };
  struct Slab {
    SlabRecord record;
    uint64_t version = 0;
    Stage stage = Stage::kIdle;
    SlabMessage message;
    SlabJob job;
    /** The GPU reads the list, and says what it found. */
    bool isListed = false;
  };

  void want(const SlabMessage& message, MonotonicTime now);
  void giveBack(const SlabMessage& message);
  void work(const SlabMessage& message);
  SlabAnswer start(Slab& slab);
  SlabAnswer moveListed(Slab& slab);
  SlabAnswer move(Slab& slab);
  void goOn(Slab& slab);
  void answer(Slab& slab, SlabAnswer answer);
  /** The slab of that message, if its borrower has it. */
  Slab* find(const SlabMessage& message);
  void free(Slab& slab);
  void drop(uint64_t owner);
  void lend();
  void publish(uint64_t index);
  bool isBarred(const ProcessId& process) const;

  SlabStore& store_;
  const RegisteredRanges& ranges_;
  std::vector<Slab> slabs_;
  std::unordered_map<uint64_t, Borrower> borrowers_;
  /** Processes of other machines that ended, the latest: what they said may still arrive. */
  std::deque<ProcessId> ended_;
  /** Version of the ranges that the mover has. */
  uint64_t rangesVersion_ = 0;
  std::vector<uint8_t> list_;
  std::vector<SlabPiece> pieces_;
  SlabCopies copies_;
  uint64_t openCount_ = 0;
  MonotonicTime checkedAt_;
  uint64_t turns_ = 0;
  uint64_t lentCount_ = 0;
  uint64_t suspectCount_ = 0;
  uint64_t movedCount_ = 0;
  uint64_t refusedCount_ = 0;
};

}  // namespace kvferry
