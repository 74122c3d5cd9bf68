// The agent's thread: what the path `slabs` needs of it.
#include <utility>

#include "agent_thread.h"

namespace kvferry {

Result AgentThread::startSlabs() {
  const SlabConfig& config = core_->config.slabs;
  if (config.slabCount == 0) return Result::success();
  Result made = SlabStore::create(api(), agent_.get(), config, core_->config.device, &store_);
  if (!made.ok()) return made;
  lender_ = std::make_unique<SlabLender>(*store_, ranges_);
  borrower_ = std::make_unique<SlabBorrower>(static_cast<SlabHost&>(*this), *store_);
  return made;
}

void AgentThread::stepSlabs() {
  if (store_ == nullptr) return;
  const MonotonicTime now = MonotonicClock::now();
  if (borrower_->step(now)) noteActivity();
  if (lender_->step()) noteActivity();
  lender_->check(now);
  core_->counters.slabsLent = lender_->lentCount();
  core_->counters.slabsSuspect = lender_->suspectCount();
  core_->counters.slabsMoved = lender_->movedCount() + borrower_->movedCount();
}

bool AgentThread::areSlabsBusy() const {
  return store_ != nullptr && (lender_->isBusy() || borrower_->isBusy());
}

Result AgentThread::makeRequest(bool isRead, const Peer& peer, const SlabSpan& span,
                                TransferRequest* request) {
  NixlHandle handle = nullptr;
  if (api().create_xfer_dlist(nixlMemory(span.here), &handle) != kNixlSuccess) {
    return Result::nixlFailure("create_xfer_dlist", kNixlBackend);
  }
  const NixlTransferList from(api(), handle);
  if (api().create_xfer_dlist(nixlMemory(span.there), &handle) != kNixlSuccess) {
    return Result::nixlFailure("create_xfer_dlist", kNixlBackend);
  }
  const NixlTransferList to(api(), handle);
  int status = api().xfer_dlist_add_desc(from.get(), span.local, span.bytes, span.here.device);
  if (status == kNixlSuccess) {
    status = api().xfer_dlist_add_desc(to.get(), span.remote, span.bytes, span.there.device);
  }
  if (status != kNixlSuccess) return Result::nixlFailure("xfer_dlist_add_desc", status);
  Result created =
      createTransfer(isRead ? kNixlRead : kNixlWrite, from.get(), to.get(), peer, &handle);
  if (!created.ok()) return created;
  *request = TransferRequest(api(), agent_.get(), handle);
  return Result::success();
}

int AgentThread::startRequest(TransferRequest& request, const SlabMessageFrame* message) {
  NixlOptions options;
  if (message != nullptr) {
    NixlHandle handle = nullptr;
    if (api().create_opt_args(&handle) != kNixlSuccess) return kNixlBackend;
    options = NixlOptions(api(), handle);
    int status = api().opt_args_set_notif_msg(handle, message->data(), message->size());
    if (status == kNixlSuccess) status = api().opt_args_set_has_notif(handle, true);
    if (status != kNixlSuccess) return status;
  }
  return request.post(options.get());
}

int AgentThread::send(const Peer& peer, const uint8_t* bytes, size_t sizeBytes) {
  startFlush();
  return api().gen_notif(agent_.get(), peer.name.c_str(), bytes, sizeBytes, nullptr);
}

void AgentThread::endTransfer(std::unique_ptr<Transfer> transfer, bool wasOverdue, Result result) {
  if (wasOverdue) core_->counters.transfersDraining -= 1;
  if (result.ok() && transfer->path == Path::kIpc) core_->counters.transfersByIpc += 1;
  const TransferOutcome outcome = result.ok() ? TransferOutcome::kDone : TransferOutcome::kFailed;
  finish(std::move(transfer), outcome, std::move(result));
}

void AgentThread::tellOverdue(const Transfer& transfer) {
  core_->counters.transfersDraining += 1;
  reportOverdue(transfer);
}

bool AgentThread::isForgotten(const Peer& peer) {
  std::lock_guard<std::mutex> lock(core_->mutex);
  return peer.isRemoved;
}

}  // namespace kvferry
