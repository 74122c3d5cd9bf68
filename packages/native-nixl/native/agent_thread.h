// The one thread that touches the library: it makes the agent, runs commands in order, posts,
// polls, and takes everything down again. Nothing outside calls into it; it takes from the core's
// queue and pushes to the core's completions. See agent.h for when it sleeps and when it polls.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "agent_core.h"
#include "environment.h"
#include "ipc_mover.h"
#include "slab_borrower.h"
#include "slab_lender.h"

namespace kvferry {

class AgentThread final : private SlabHost {
 public:
  explicit AgentThread(std::shared_ptr<AgentCore> core);
  AgentThread(const AgentThread&) = delete;
  AgentThread& operator=(const AgentThread&) = delete;

  /** Until closed. True: all was taken down. False: something may still write; this must be leaked.
   */
  bool run(Ticket ready);

 private:
  // agent_thread.cc: the loop
  void takeCommands();
  void poll();
  void sleep();
  void breakDown(Result reason);
  bool isFinished(bool* isClean);
  uint64_t abandonOpenTransfers();
  void takeDown();

  // agent_thread_commands.cc
  Result start();
  void execute(RegisterCommand& command);
  void execute(DeregisterCommand& command);
  void execute(MetadataCommand& command);
  void execute(AddPeerCommand& command);
  void execute(RemovePeerCommand& command);
  void execute(NotifyCommand& command);
  void execute(ProcessEndedCommand& command);
  void execute(PostCommand& command);
  void execute(CloseCommand& command);
  Result addPeer(const AddPeerCommand& command, uint64_t* handle);
  Result replacePeer(const std::string& name);
  Result loadPeer(const AddPeerCommand& command);
  void invalidate(const std::string& name);
  void complete(Ticket ticket, Result result, uint64_t handle = 0);
  void takeNotifications();

  // agent_thread_backends.cc
  Result startBackends();
  Result startBackend(const std::string& name);
  /** By the first backend of the list that both ends have and that takes the memory. */
  Result createTransfer(int operation, NixlHandle local, NixlHandle remote, const Peer& peer,
                        NixlHandle* request);

  // agent_thread_transfers.cc
  void postOrHold(std::unique_ptr<Transfer> transfer);
  void postHeld();
  /** Where the fence's moment hasn't come; a fence that failed ends it. */
  void hold(std::unique_ptr<Transfer> transfer, FenceState state);
  void askEvents();
  void post(std::unique_ptr<Transfer> transfer);
  /** All that a post needs and no byte decides. */
  Result prepare(Transfer& transfer);
  Result createRequest(Transfer& transfer);
  Result createOptions(Transfer& transfer);
  void pollTransfers();
  void pollList(std::vector<std::unique_ptr<Transfer>>& list, bool isDraining);
  void reportOverdue(const Transfer& transfer);
  void finish(std::unique_ptr<Transfer> transfer, TransferOutcome outcome, Result result);

  // agent_thread_slabs.cc
  Result startSlabs();
  void stepSlabs();
  bool areSlabsBusy() const;
  Result makeRequest(bool isRead, const Peer& peer, const SlabSpan& span,
                     TransferRequest* request) override;
  int startRequest(TransferRequest& request, const SlabMessageFrame* message) override;
  int send(const Peer& peer, const uint8_t* bytes, size_t sizeBytes) override;
  void endTransfer(std::unique_ptr<Transfer> transfer, bool wasOverdue, Result result) override;
  void tellOverdue(const Transfer& transfer) override;
  bool isForgotten(const Peer& peer) override;

  // agent_thread_ipc.cc
  void startIpc();
  void stepIpc();
  Result offerIpc(std::vector<uint8_t>* metadata);
  void meetIpc(Peer& peer, IpcFacts facts);
  void endSettled(bool isClosing);

  const NixlApi& api() const noexcept { return *core_->config.api; }
  void noteActivity() noexcept { lastActivity_ = MonotonicClock::now(); }
  /** Also a broken agent owes its open transfers their final status. */
  bool isPolling() const { return isAwaitingPeers() || (isReady_ && isFlushing()); }
  /** Something is in flight or expected, and its end is somebody's latency. */
  bool isAwaitingPeers() const {
    const bool isIpcBusy = ipc_ != nullptr && ipc_->hasTimelyTasks();
    return !active_.empty() || areSlabsBusy() || isIpcBusy ||
           (isReady_ && core_->isNotificationExpected.load());
  }
  bool isFlushing() const { return MonotonicClock::now() < flushEnd_; }
  void startFlush() {
    flushEnd_ = MonotonicClock::now() + std::chrono::milliseconds(limits::kFlushMs);
  }

  const std::shared_ptr<AgentCore> core_;
  DescriptorWatch descriptors_;
  MonotonicTime descriptorsCheckedAt_;

  // Destruction is from the bottom up: options and maps, then backends, then the agent.
  NixlAgentHandle agent_;
  std::vector<NixlBackend> backends_;
  /** Of several backends one each, in the order of the list; empty when there is nothing to choose. */
  std::vector<NixlOptions> choices_;
  NixlNotificationMap notifications_;

  /** Every peer that the library knows, by name; also removed ones with open transfers. */
  std::unordered_map<std::string, std::shared_ptr<Peer>> loadedPeers_;

  /** Waiting for a fence. */
  std::vector<std::unique_ptr<Transfer>> held_;
  /** When the first of them may go out, as far as it is known. */
  MonotonicTime heldDue_ = MonotonicTime::max();
  /** What the GPU must have done before some of them go out. */
  std::vector<AwaitedEvent> awaited_;
  /** Posted, before its deadline. */
  std::vector<std::unique_ptr<Transfer>> active_;
  /** Posted, past its deadline: the drain list. */
  std::vector<std::unique_ptr<Transfer>> draining_;
  TransferPlan plan_;

  /** Own regions, as a borrower of our slabs may name them. */
  RegisteredRanges ranges_;
  /** All three, or none. */
  std::unique_ptr<SlabStore> store_;
  std::unique_ptr<SlabLender> lender_;
  std::unique_ptr<SlabBorrower> borrower_;

  /** Null: the agent has no such path. */
  std::unique_ptr<IpcMover> ipc_;

  /** Proofs of a process's death, and when what it left on a GPU is over, in order. */
  struct Settling {
    Ticket ticket = 0;
    MonotonicTime due;
  };
  std::deque<Settling> settling_;

  std::vector<Command> batch_;
  uint64_t fenceEpochSeen_ = 0;
  MonotonicTime lastActivity_;
  MonotonicTime drainingPolledAt_;
  MonotonicTime flushEnd_;
  uint64_t pollFailures_ = 0;
  /** Above 0: one of the last three polls was busy. */
  int busyScore_ = 0;
  bool isReady_ = false;

  bool isClosing_ = false;
  Ticket closeTicket_ = 0;
  MonotonicTime closeDeadline_;
};

/** The body of the agent's thread. */
void runAgentThread(std::shared_ptr<AgentCore> core, Ticket ready);

}  // namespace kvferry
