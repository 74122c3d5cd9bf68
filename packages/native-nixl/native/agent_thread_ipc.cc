// The agent's thread: what the path `ipc` needs of it, and when a dead process is over on a GPU, too.
#include <utility>

#include "agent_thread.h"
#include "cuda_device.h"
#include "ipc_offer.h"

namespace kvferry {
namespace {

/** Room for the frame that is put around metadata, and for what an agent says of its slabs. */
constexpr size_t kMetadataRoom = 256;

}  // namespace

void AgentThread::startIpc() {
  const AgentConfig& config = core_->config;
  if (!config.ipc.isOn) return;
  ipc_ = std::make_unique<IpcMover>(static_cast<TransferHost&>(*this), config.device, config.ipc);
}

void AgentThread::stepIpc() {
  if (ipc_ != nullptr && ipc_->hasTasks() && ipc_->step(MonotonicClock::now())) noteActivity();
}

/** What is registered now, behind the library's metadata. */
Result AgentThread::offerIpc(std::vector<uint8_t>* metadata) {
  if (ipc_ == nullptr) return Result::success();
  const CudaDevice& device = *core_->config.device;
  std::vector<kernels::AddressRange> registered;
  {
    std::lock_guard<std::mutex> lock(core_->mutex);
    core_->regions.forEach([&](uint64_t, const std::shared_ptr<Region>& region) {
      const bool isHere = region->place.kind == MemoryKind::kDevice &&
                          region->place.device == static_cast<uint32_t>(device.ordinal());
      if (!region->isRegistered || region->isLeaving || !region->isTarget || !isHere) return;
      registered.push_back({region->address, region->address + region->lengthBytes});
    });
  }
  IpcFacts facts;
  Result offered = kvferry::offerIpc(device, std::move(registered), &facts);
  if (!offered.ok()) return offered;
  const size_t before = metadata->size();
  appendIpcFacts(facts, metadata);
  // Rather without this path than without metadata.
  if (metadata->size() + kMetadataRoom > limits::kAgentMetadataSizeBytesMax) {
    metadata->resize(before);
  }
  return offered;
}

void AgentThread::meetIpc(Peer& peer, IpcFacts facts) {
  if (ipc_ == nullptr) return;
  const Result met = ipc_->meet(peer, std::move(facts));
  peer.hasIpc = met.ok();
  if (!met.ok()) {
    peer.noIpc = met.status == Status::kCuda ? std::string(met.operation) + " answered " + met.detail
                                             : met.detail;
  }
}

void AgentThread::execute(ProcessEndedCommand& command) {
  if (store_ != nullptr) {
    lender_->processEnded(command.process);
    borrower_->processEnded(command.process);
  }
  if (ipc_ != nullptr) ipc_->processEnded(command.process);
  if (core_->config.device == nullptr) return complete(command.ticket, Result::success());
  settling_.push_back({command.ticket, deadlineAfter(MonotonicClock::now(), limits::kGpuSettleMs)});
}

void AgentThread::endSettled(bool isClosing) {
  const MonotonicTime now = settling_.empty() ? MonotonicTime() : MonotonicClock::now();
  while (!settling_.empty() && (isClosing || settling_.front().due <= now)) {
    const Settling settled = settling_.front();
    settling_.pop_front();
    complete(settled.ticket, settled.due <= now
                                 ? Result::success()
                                 : Result::failure(Status::kClosed, "processEnded",
                                                   "the agent was closed"));
  }
}

}  // namespace kvferry
