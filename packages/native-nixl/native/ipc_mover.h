// The path `ipc`: transfers as kernels of our GPU over a peer's mapped memory, one after the other, so that no more of the
// GPU is taken than one of them takes. The peer's process takes no part. A kernel can't be stopped: what was launched is
// open until the GPU says that it is over, and only then is the peer told. The agent's thread only.
#pragma once

#include <deque>
#include <memory>
#include <unordered_map>

#include "cuda_lane.h"
#include "ipc_config.h"
#include "ipc_mappings.h"
#include "process_watch.h"
#include "transfer_host.h"

namespace kvferry {

class IpcMover {
 public:
  IpcMover(TransferHost& host, std::shared_ptr<CudaDevice> device, const IpcConfig& config);
  IpcMover(const IpcMover&) = delete;
  IpcMover& operator=(const IpcMover&) = delete;

  /** Opens what a new peer offers; what went wrong is why it has no path. */
  Result meet(const Peer& peer, IpcFacts facts);
  /** Closes it again. No transfer with the peer is open. */
  void forget(const Peer& peer);
  /** Proof. Its memory is given back as soon as no kernel uses it. */
  void processEnded(const ProcessId& process);

  /** The peer has the path. */
  void add(std::unique_ptr<Transfer> transfer);
  /** True: something moved. */
  bool step(MonotonicTime now);
  /** Transfers that were not launched end; the others are told overdue. Answers how many these are. */
  uint64_t abandon();

  bool hasTasks() const noexcept { return !waiting_.empty() || !running_.empty(); }
  bool hasTimelyTasks() const noexcept;

 private:
  struct Link {
    explicit Link(std::unique_ptr<IpcMappings> opened)
        : mappings(std::move(opened)), watch(mappings->process()) {}
    /** Null once the peer's process has ended and nothing uses them. */
    std::unique_ptr<IpcMappings> mappings;
    ProcessWatch watch;
    uint64_t runningCount = 0;
  };
  struct Job {
    std::unique_ptr<Transfer> transfer;
    std::unique_ptr<CudaLane> lane;
    bool isOverdue = false;
  };

  Link& linkOf(const Transfer& transfer) { return *links_.at(transfer.peer.get()); }
  bool endLate(MonotonicTime now);
  bool endDone();
  bool launchWaiting();
  void launch(std::unique_ptr<Transfer> transfer);
  void end(Job job, Result result);
  /** Not ok once it has ended; then nothing of it is mapped here longer than a kernel needs. */
  Result checkAlive(Link& link);

  TransferHost& host_;
  const std::shared_ptr<CudaDevice> device_;
  const uint64_t ctaCount_;
  std::unordered_map<const Peer*, std::unique_ptr<Link>> links_;
  std::deque<std::unique_ptr<Transfer>> waiting_;
  /** In the order in which the GPU runs them; at most kIpcLaunchesMax. */
  std::deque<Job> running_;
};

}  // namespace kvferry
