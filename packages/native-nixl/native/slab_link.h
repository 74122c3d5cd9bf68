// The initiator's way to one peer's slabs: the slabs that it holds there (loans), the transfers that
// use them, and the peer's records, which it READs as long as it waits for something. Every request of
// the library that a slab takes part in stays known here until its final status; a loan whose request
// or answer is open is never used again before. The agent's thread only.
#pragma once

#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "slab_store.h"
#include "slab_task.h"
#include "transfer_host.h"

namespace kvferry {

struct SlabSpan {
  uint64_t local = 0;
  uint64_t remote = 0;
  uint64_t bytes = 0;
  /** Where each lies. */
  MemoryPlace here;
  MemoryPlace there;
};

/** What a link needs of the agent's thread. */
class SlabHost : public TransferHost {
 public:
  /** One descriptor, between records or between slabs. */
  virtual Result makeRequest(bool isRead, const Peer& peer, const SlabSpan& span,
                             TransferRequest* request) = 0;
  /** Status of the library. `message` is delivered after the bytes; null: none. */
  virtual int startRequest(TransferRequest& request, const SlabMessageFrame* message) = 0;
  /** It was removed, and is known only for what is open. */
  virtual bool isForgotten(const Peer& peer) = 0;
};

class SlabLink {
 public:
  /** `own`: the agent's free slabs, and `nextOwner`, are shared by its links. `mirror` is given back by the owner. */
  SlabLink(SlabHost& host, SlabStore& store, std::vector<uint64_t>& own, std::shared_ptr<Peer> peer,
           uint8_t* mirror, uint64_t& nextOwner);
  SlabLink(const SlabLink&) = delete;
  SlabLink& operator=(const SlabLink&) = delete;

  void add(std::unique_ptr<Transfer> transfer);
  /** True: something moved. */
  bool step(MonotonicTime now);
  /** Proof that the peer's process has ended. */
  void lenderEnded(const Result& reason);
  /** Gives everything back, without waiting. Nothing may be in use. */
  void letGo();
  /** Transfers of which nothing left end; the others are told overdue. Answers how many these are. */
  uint64_t abandon();

  const Peer& peer() const noexcept { return *peer_; }
  uint8_t* mirror() const noexcept { return mirror_; }
  bool hasTasks() const noexcept { return !tasks_.empty(); }
  bool hasTimelyTasks() const noexcept;
  /** Nothing open, nothing held. */
  bool isIdle() const noexcept { return tasks_.empty() && !hasAsked_ && !isLooking_; }
  uint64_t movedCount() const noexcept { return movedCount_; }

 private:
  /** Filling and placing take time on a GPU only. */
  enum class Phase : uint8_t { kIdle, kFilling, kWriting, kWaiting, kReading, kPlacing };
  struct Loan {
    uint64_t slab = 0;
    uint64_t generation = 0;
    uint64_t turn = 0;
    Phase phase = Phase::kIdle;
    SlabTask* task = nullptr;
    /** Of our own; while it is in use. */
    uint64_t own = 0;
    SlabPart part;
    std::optional<SideCursor> local;
    TransferRequest request;
    SlabJob job;
  };

  // slab_link.cc
  bool use(MonotonicTime now);
  void fill(Loan& loan, SlabTask& task);
  Result cut(Loan& loan);
  void write(Loan& loan);
  bool pollLoans(MonotonicTime now);
  void landed(Loan& loan, int status);
  void readBack(Loan& loan);
  void place(Loan& loan);
  /** A job is over. */
  void copied(Loan& loan, Result result);
  void end(Loan& loan, Result result);
  bool finishTasks(MonotonicTime now);
  Result settle(SlabTask& task);

  // slab_link_records.cc
  bool look(MonotonicTime now);
  void unreachable(Result reason, MonotonicTime now);
  void readRecords();
  void answered(Loan& loan, const SlabRecord& record);
  void ask(MonotonicTime now);
  void giveBack(Loan& loan);
  bool say(SlabMessage message);
  bool isWaiting() const noexcept;
  uint64_t bytesWaiting() const noexcept;

  SlabHost& host_;
  SlabStore& store_;
  std::vector<uint64_t>& own_;
  const std::shared_ptr<Peer> peer_;
  uint8_t* const mirror_;
  /**
   * Who borrows, among all borrowers of the peer. A new one whenever everything went back, so that
   * records from before mean nobody.
   */
  uint64_t owner_;
  uint64_t& nextOwner_;

  SlabCopies copies_;
  std::list<Loan> loans_;
  std::list<SlabTask> tasks_;
  /** Of each of the peer's slabs, the last loan that went back: an older record may still be read. */
  std::vector<uint64_t> returned_;
  TransferRequest looking_;
  bool isLooking_ = false;
  bool isRecalled_ = false;
  bool isUnreachable_ = false;
  uint64_t wanted_ = 0;
  /** Something may be lent to `owner_`, noticed or not. */
  bool hasAsked_ = false;
  MonotonicTime lookAgainAt_;
  MonotonicTime usedAt_;
  uint64_t movedCount_ = 0;
};

}  // namespace kvferry
