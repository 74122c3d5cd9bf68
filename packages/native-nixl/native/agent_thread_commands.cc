// The agent's thread: start, commands, peers, notifications. The library's calls are made here.
#include <cstdlib>
#include <cstring>
#include <utility>

#include "agent_thread.h"
#include "cuda_device.h"
#include "metadata_name.h"

namespace kvferry {
namespace {

Result brokenAgent() {
  return Result::failure(Status::kBroken, "agent", "the agent did not start, or broke");
}

/** What stands behind the library's own metadata. */
struct PeerFacts {
  size_t librarySize = 0;
  SlabFacts slabs;
  IpcFacts ipc;
};

PeerFacts factsOf(const AddPeerCommand& command) {
  PeerFacts facts;
  const uint8_t* const bytes = command.metadata.data();
  facts.librarySize = splitSlabFacts(bytes, command.metadata.size(), &facts.slabs);
  facts.librarySize = splitIpcFacts(bytes, facts.librarySize, &facts.ipc);
  return facts;
}

}  // namespace

Result AgentThread::start() {
  if (core_->config.device != nullptr) {
    // Kernels and copies of slabs are this thread's, and the library finds the context here.
    Result entered = core_->config.device->enter();
    if (!entered.ok()) return entered;
  }
  NixlAgentConfig config;
  NixlHandle handle = nullptr;
  int status = api().create_configured_agent(core_->config.name.c_str(), &config, &handle);
  if (status != kNixlSuccess) return Result::nixlFailure("create_configured_agent", status);
  agent_ = NixlAgentHandle(api(), handle);
  Result backed = startBackends();
  if (!backed.ok()) return backed;
  status = api().create_notif_map(&handle);
  if (status != kNixlSuccess) return Result::nixlFailure("create_notif_map", status);
  notifications_ = NixlNotificationMap(api(), handle);
  descriptors_.markNew();
  startIpc();
  return startSlabs();
}

void AgentThread::complete(Ticket ticket, Result result, uint64_t handle) {
  CommandCompletion completion;
  completion.ticket = ticket;
  completion.result = std::move(result);
  completion.handle = handle;
  core_->completions.push(std::move(completion));
}

void AgentThread::execute(MetadataCommand& command) {
  CommandCompletion completion;
  completion.ticket = command.ticket;
  completion.result = isReady_ ? Result::success() : brokenAgent();
  if (isReady_) {
    void* bytes = nullptr;
    size_t sizeBytes = 0;
    const int status = api().get_local_md(agent_.get(), &bytes, &sizeBytes);
    if (status == kNixlSuccess) {
      const auto* from = static_cast<const uint8_t*>(bytes);
      completion.bytes.assign(from, from + sizeBytes);
      std::free(bytes);
      completion.result = offerIpc(&completion.bytes);
      if (store_ != nullptr) appendSlabFacts(store_->facts(), &completion.bytes);
    } else {
      completion.result = Result::nixlFailure("get_local_md", status);
    }
  }
  core_->completions.push(std::move(completion));
}

void AgentThread::execute(AddPeerCommand& command) {
  uint64_t handle = 0;
  Result result = isReady_ ? addPeer(command, &handle) : brokenAgent();
  complete(command.ticket, std::move(result), handle);
}

Result AgentThread::addPeer(const AddPeerCommand& command, uint64_t* handle) {
  const auto named = agentNameOfMetadata(command.metadata.data(), command.metadata.size());
  if (!named) return Result::failure(Status::kMessageInvalid, "addPeer", "not agent metadata");
  if (*named != command.expectedName || *named == core_->config.name) {
    return Result::failure(Status::kPeerMismatch, "addPeer", *named);
  }
  Result replaced = replacePeer(command.expectedName);
  if (!replaced.ok()) return replaced;
  Result loaded = loadPeer(command);
  if (!loaded.ok()) return loaded;
  auto peer = std::make_shared<Peer>();
  peer->name = command.expectedName;
  PeerFacts facts = factsOf(command);
  peer->slabs = facts.slabs;
  meetIpc(*peer, std::move(facts.ipc));
  {
    std::lock_guard<std::mutex> lock(core_->mutex);
    peer->handle = core_->peers.insert(peer);
  }
  if (peer->handle == 0) {
    if (ipc_ != nullptr) ipc_->forget(*peer);
    invalidate(command.expectedName);
    return Result::overLimit("peerCountMax", limits::kPeerCountMax, limits::kPeerCountMax);
  }
  *handle = peer->handle;
  loadedPeers_[peer->name] = std::move(peer);
  descriptors_.markNew();
  return loaded;
}

/** Makes room for a peer of this name: the library refuses new metadata for a name that it knows.
 */
Result AgentThread::replacePeer(const std::string& name) {
  const auto known = loadedPeers_.find(name);
  if (known == loadedPeers_.end()) return Result::success();
  {
    std::lock_guard<std::mutex> lock(core_->mutex);
    Peer& peer = *known->second;
    // Forgetting a peer with open transfers would lose their final status, and with it the memory.
    if (peer.openTransfers > 0) {
      return Result::busy("peer", peer.openTransfers, "transfers with this peer are still open");
    }
    if (!peer.isRemoved) core_->forgetPeer(peer);
  }
  invalidate(name);
  return Result::success();
}

Result AgentThread::loadPeer(const AddPeerCommand& command) {
  char* nameFound = nullptr;
  const size_t sizeBytes = factsOf(command).librarySize;
  const int loaded =
      api().load_remote_md(agent_.get(), command.metadata.data(), sizeBytes, &nameFound);
  const std::string name = nameFound != nullptr ? nameFound : "";
  std::free(nameFound);
  if (loaded != kNixlSuccess) {
    // What it understood before it failed stays, and would make it refuse good metadata of that
    // name.
    if (loadedPeers_.count(command.expectedName) == 0) {
      api().invalidate_remote_md(agent_.get(), command.expectedName.c_str());
    }
    Result result = Result::failure(Status::kMessageInvalid, "load_remote_md",
                                    "the library refuses the metadata");
    result.nixl = loaded;
    return result;
  }
  if (name != command.expectedName) {
    if (loadedPeers_.count(name) == 0) api().invalidate_remote_md(agent_.get(), name.c_str());
    return Result::failure(Status::kPeerMismatch, "addPeer", name);
  }
  const int connected = api().agent_make_connection(agent_.get(), name.c_str(), nullptr);
  if (connected == kNixlSuccess || connected == kNixlInProgress) {
    startFlush();
    return Result::success();
  }
  invalidate(name);
  return Result::nixlFailure("agent_make_connection", connected);
}

void AgentThread::invalidate(const std::string& name) {
  const auto known = loadedPeers_.find(name);
  if (known != loadedPeers_.end()) {
    if (borrower_ != nullptr) borrower_->forget(*known->second);
    if (ipc_ != nullptr) ipc_->forget(*known->second);
  }
  api().invalidate_remote_md(agent_.get(), name.c_str());
  loadedPeers_.erase(name);
}

void AgentThread::execute(RemovePeerCommand& command) {
  if (command.peer != nullptr) {
    uint64_t open = 0;
    {
      std::lock_guard<std::mutex> lock(core_->mutex);
      open = command.peer->openTransfers;
    }
    // With open transfers, `finish` does it after the last one. A replaced peer is another record.
    const auto known = loadedPeers_.find(command.peer->name);
    const bool isLoaded = known != loadedPeers_.end() && known->second == command.peer;
    if (open == 0 && isLoaded && isReady_) invalidate(command.peer->name);
  }
  complete(command.ticket, Result::success());
}

void AgentThread::execute(NotifyCommand& command) {
  Result result = isReady_ ? Result::success() : brokenAgent();
  if (result.ok()) {
    bool isRemoved = false;
    {
      std::lock_guard<std::mutex> lock(core_->mutex);
      isRemoved = command.peer->isRemoved;
    }
    const int status =
        isRemoved ? kNixlNotFound
                  : api().gen_notif(agent_.get(), command.peer->name.c_str(),
                                    command.message.data(), command.message.size(), nullptr);
    if (status < 0) result = Result::nixlFailure("gen_notif", status);
    startFlush();
  }
  complete(command.ticket, std::move(result));
}

void AgentThread::execute(PostCommand& command) { postOrHold(std::move(command.transfer)); }

void AgentThread::execute(CloseCommand& command) {
  if (!isClosing_ || command.deadline < closeDeadline_) closeDeadline_ = command.deadline;
  if (command.ticket != 0) closeTicket_ = command.ticket;
  isClosing_ = true;
}

void AgentThread::takeNotifications() {
  if (!isReady_ || (!isPolling() && draining_.empty())) return;
  const NixlHandle map = notifications_.get();
  api().notif_map_clear(map);
  const int status = api().get_notifs(agent_.get(), map, nullptr);
  core_->counters.polls += 1;
  if (status < 0) {
    pollFailures_ += 1;
    if (pollFailures_ >= limits::kPollFailuresMax)
      breakDown(Result::nixlFailure("get_notifs", status));
    return;
  }
  pollFailures_ = 0;
  size_t agents = 0;
  if (api().notif_map_size(map, &agents) != kNixlSuccess) return;
  for (size_t i = 0; i < agents; i++) {
    const char* from = nullptr;
    size_t count = 0;
    if (api().notif_map_get_agent_at(map, i, &from) != kNixlSuccess) continue;
    if (api().notif_map_get_notifs_size(map, from, &count) != kNixlSuccess) continue;
    for (size_t j = 0; j < count; j++) {
      const void* bytes = nullptr;
      size_t sizeBytes = 0;
      if (api().notif_map_get_notif(map, from, j, &bytes, &sizeBytes) != kNixlSuccess) continue;
      noteActivity();
      if (lender_ != nullptr && lender_->take(static_cast<const uint8_t*>(bytes), sizeBytes,
                                              MonotonicClock::now())) {
        continue;
      }
      core_->counters.notificationsReceived += 1;
      if (sizeBytes > limits::kNotificationSizeBytesMax) {
        core_->counters.notificationsDropped += 1;
        continue;
      }
      const auto* first = static_cast<const uint8_t*>(bytes);
      core_->counters.notificationsDropped +=
          core_->completions.push(NotificationMessage{from, {first, first + sizeBytes}});
    }
  }
}

}  // namespace kvferry
