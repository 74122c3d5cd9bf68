// The JS side of an agent: posts. Checks and copies on the caller's thread (so a wrong post throws
// where it was made), then enqueues all of them or none.
#include <cmath>
#include <string>
#include <utility>

#include "agent_core.h"
#include "cuda_device.h"

namespace kvferry {
namespace {

Result invalidHandle(const char* what) {
  return Result::failure(Status::kInvalidHandle, "post", std::string("not a ") + what);
}

/** Exact for safe integers; anything else is refused. */
bool toSafeInteger(double value, uint64_t* integer) {
  if (!(value >= 0 && value <= static_cast<double>(limits::kSafeIntegerMax))) return false;
  if (std::floor(value) != value) return false;
  *integer = static_cast<uint64_t>(value);
  return true;
}

/** Copies a side out of the caller's arrays; its bounds are checked later, by the plan. */
Result copySide(const SideView& view, std::shared_ptr<TableEntry> entry, OwnedSide* side) {
  const uint64_t countMax =
      view.isSegments ? limits::kSegmentsPerPostMax : limits::kBlocksPerPostMax;
  if (view.count > countMax) {
    return Result::overLimit(view.isSegments ? "segmentsPerPostMax" : "blocksPerPostMax",
                             view.count, countMax);
  }
  side->entry = std::move(entry);
  side->isSegments = view.isSegments;
  const uint32_t* ids = view.isSegments ? view.regions : view.blockIds;
  side->ids.assign(ids, ids + view.count);
  if (!view.isSegments) return Result::success();
  side->offsets.resize(view.count);
  side->lengths.resize(view.count);
  for (size_t i = 0; i < view.count; i++) {
    if (!toSafeInteger(view.offsets[i], &side->offsets[i]) ||
        !toSafeInteger(view.lengths[i], &side->lengths[i])) {
      return Result::outOfRange("post", "segment " + std::to_string(i) + ": not a safe integer");
    }
  }
  return Result::success();
}

Result noPath(const std::string& why) {
  return Result::failure(Status::kUnsupported, "path", why);
}

/** Whether both agents have the path, and the memory of both sides lies where it can go. */
Result checkPath(Path path, const AgentConfig& config, const Peer& peer, const BlockTable& local,
                 const BlockTable& remote) {
  if (path == Path::kSlabs && (config.slabs.slabCount == 0 || peer.slabs.slabCount == 0)) {
    return noPath(config.slabs.slabCount == 0 ? "this agent has no slabs" : "the peer lends none");
  }
  if (path == Path::kIpc && !config.ipc.isOn) {
    return noPath("this agent has no path ipc: it needs the options device and ipc");
  }
  if (path == Path::kIpc && !peer.hasIpc) return noPath("no path ipc: " + peer.noIpc);
  if (local.place.kind != remote.place.kind) {
    return Result::failure(Status::kUnsupported, "transfers between host and GPU memory",
                           "the library moves these in software: copy within each machine first");
  }
  MemoryPlace own;
  if (config.device != nullptr) {
    own = {MemoryKind::kDevice, static_cast<uint32_t>(config.device->ordinal())};
  }
  if (path == Path::kSlabs && (!(local.place == own) || !(peer.slabs.place == remote.place))) {
    return noPath("the slabs lie elsewhere than the blocks: both agents need the option device for "
                  "the memory that they move");
  }
  if (path == Path::kIpc && !(local.place == own)) {
    return noPath("the blocks lie elsewhere than on the agent's GPU");
  }
  if (path != Path::kSlabs && !remote.isTarget) {
    return Result::failure(Status::kUnsupported, "imported or virtual GPU memory as a target",
                           "it has no handle by which the peer's memory could be reached: take the "
                           "path slabs, or let the process that allocated it offer it");
  }
  return Result::success();
}

/**
 * Builds the transfer of one post. Needs the lock; changes nothing in the core but scratch memory and that
 * its fence is awaited, which costs no more than a wake if the post is refused after all.
 */
Result prepareTransfer(HandleTable<std::shared_ptr<Peer>>& peers,
                       HandleTable<std::shared_ptr<TableEntry>>& tables, PlanScratch& scratch,
                       FenceSet& fences, const AgentConfig& config, const PostView& post,
                       Transfer* transfer) {
  const std::shared_ptr<Peer>* peer = peers.find(post.peer);
  if (peer == nullptr) return invalidHandle("peer");
  const std::shared_ptr<TableEntry>* local = tables.find(post.local.table);
  if (local == nullptr || !(*local)->isLocal()) return invalidHandle("block table of our own");
  const std::shared_ptr<TableEntry>* remote = tables.find(post.remote.table);
  if (remote == nullptr || (*remote)->peer != post.peer)
    return invalidHandle("block table of the peer");
  Result travels = checkPath(post.path, config, **peer, (*local)->table, (*remote)->table);
  if (!travels.ok()) return travels;
  if (post.hasFence && !fences.wasMade(post.fence)) return invalidHandle("fence");
  if (post.hasNotification && post.notificationSizeBytes > limits::kNotificationSizeBytesMax) {
    return Result::outOfRange("post", "the notification is over 512 bytes");
  }
  Result copied = copySide(post.local, *local, &transfer->local);
  if (copied.ok()) copied = copySide(post.remote, *remote, &transfer->remote);
  if (!copied.ok()) return copied;
  transfer->direction = post.direction;
  transfer->peer = *peer;
  transfer->path = post.path;
  const auto fence = post.hasFence ? fences.open.find(post.fence) : fences.open.end();
  if (fence != fences.open.end()) {
    transfer->fence = post.fence;
    fence->second.isAwaited = true;
  }
  transfer->hasNotification = post.hasNotification;
  if (post.hasNotification) {
    transfer->notification.assign(post.notification,
                                  post.notification + post.notificationSizeBytes);
  }
  transfer->deadlineMs = post.deadlineMs;
  return checkPost(transfer->local.view(), transfer->remote.view(),
                   post.direction == Direction::kRead, scratch, &transfer->completion.bytes);
}

}  // namespace

Result Agent::postAll(const PostView* posts, size_t count, bool isWaitUntilPosted,
                      uint64_t* handles) {
  std::shared_ptr<PostWaiter> waiter;
  MonotonicTime waitEnd;
  bool isWaiting = false;
  bool isNotifyDue = false;
  {
    std::lock_guard<std::mutex> lock(core_->mutex);
    Result open = core_->checkIntake();
    if (!open.ok()) return open;
    const uint64_t draining = core_->counters.transfersDraining;
    if (draining >= limits::kDrainingTransferCountMax) {
      return Result::overLimit("drainingTransferCountMax", draining,
                               limits::kDrainingTransferCountMax);
    }
    if (count > limits::kTransfersInFlightMax - core_->transfers.size()) {
      return Result::overLimit("transfersInFlightMax", core_->transfers.size() + count,
                               limits::kTransfersInFlightMax);
    }
    std::vector<Command> commands;
    commands.reserve(count);
    for (size_t i = 0; i < count; i++) {
      auto transfer = std::make_unique<Transfer>();
      Result prepared = prepareTransfer(core_->peers, core_->tables, core_->scratch, core_->fences,
                                        core_->config, posts[i], transfer.get());
      if (!prepared.ok()) {
        if (prepared.status != Status::kLimit) prepared.value = i;
        return prepared;
      }
      commands.emplace_back(PostCommand{std::move(transfer)});
    }

    // Nothing can fail from here on, except the push, whose room was counted above.
    const MonotonicTime now = MonotonicClock::now();
    if (isWaitUntilPosted) waiter = std::make_shared<PostWaiter>();
    for (size_t i = 0; i < count; i++) {
      Transfer& transfer = *std::get<PostCommand>(commands[i]).transfer;
      transfer.handle = handles[i] = core_->transfers.insert(0);
      transfer.enqueuedAt = now;
      transfer.deadline = deadlineAfter(now, transfer.deadlineMs);
      transfer.peer->openTransfers += 1;
      transfer.local.entry->openTransfers += 1;
      transfer.remote.entry->openTransfers += 1;
      if (waiter != nullptr && transfer.fence == 0) {
        waiter->expectOne();
        isWaiting = true;
        transfer.waiter = waiter;
        if (transfer.deadline > waitEnd) waitEnd = transfer.deadline;
      }
    }
    core_->counters.transfersOpen += count;
    // The thread must never see a post before the registry counts it: hence under the lock.
    if (!core_->queue.pushAll(std::move(commands), &isNotifyDue)) {
      for (Command& command : commands) {
        Transfer& transfer = *std::get<PostCommand>(command).transfer;
        core_->transfers.erase(transfer.handle);
        transfer.peer->openTransfers -= 1;
        transfer.local.entry->openTransfers -= 1;
        transfer.remote.entry->openTransfers -= 1;
      }
      core_->counters.transfersOpen -= count;
      return Result::overLimit("transfersInFlightMax", count, limits::kTransfersInFlightMax);
    }
  }
  if (isNotifyDue) core_->queue.notify();
  if (isWaiting) waiter->waitUntil(waitEnd);
  return Result::success();
}

}  // namespace kvferry
