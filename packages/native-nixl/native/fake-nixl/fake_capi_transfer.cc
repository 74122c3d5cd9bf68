// The fake's C functions: transfers and notifications. Also the traps of the real ones: a post that
// copies before it returns, a release that is no cancel, a status after release that ends the
// process.
#include <algorithm>
#include <cstring>
#include <set>

#include "fake_capi.h"

using namespace fakenixl;

namespace {

/** Requests that exist; a handle outside is use after free. Needs the lock. */
std::set<Request*>& liveRequests() {
  static auto* all = new std::set<Request*>;
  return *all;
}

Request& requestOf(void* handle) {
  auto* request = static_cast<Request*>(handle);
  if (liveRequests().count(request) == 0) die("a destroyed request is used");
  return *request;
}

bool isInside(const std::vector<Range>& regions, const Range& range) {
  for (const Range& region : regions) {
    // Wraps as the real one's check does: an end beyond 2^64 looks small.
    if (range.address >= region.address &&
        range.address + range.bytes <= region.address + region.bytes) {
      return true;
    }
  }
  return false;
}

/**
 * The backend of a transfer; empty: none. Without the caller's choice not the first that was made: the real
 * one goes by the addresses of its engines.
 */
std::string backendOf(const Agent& agent, const Remote& remote, const Options* options) {
  const bool hasChoice = options != nullptr && !options->backends.empty();
  std::string chosen;
  for (const std::string& name : hasChoice ? options->backends : agent.backends) {
    const auto& there = remote.backends;
    if (std::find(there.begin(), there.end(), name) != there.end()) chosen = name;
  }
  return chosen;
}

bool isRemoteKnown(const Request& request) {
  const auto found = request.agent->remotes.find(request.peer);
  return found != request.agent->remotes.end() && found->second == request.remote;
}

std::shared_ptr<Copy> makeCopy(const Request& request) {
  auto copy = std::make_shared<Copy>();
  copy->agent = request.agent;
  copy->from = request.agent->name;
  copy->remote = request.remote;
  copy->isRead = request.isRead;
  copy->pieces = request.pieces;
  copy->hasNotification = request.hasNotification;
  copy->notification = request.notification;
  copy->due = Clock::now() + std::chrono::microseconds(knob("delay_us"));
  copy->pollsLeft = knob("delay_polls");
  copy->isNeverEnding = takeKnob("never_complete");
  if (knob("target_must_poll") != 0) {
    const auto target = findAgent(request.remote->name, request.remote->incarnation);
    copy->isWaitingForTarget = target != nullptr;
    copy->targetPollsBefore = target != nullptr ? target->polls : 0;
  }
  return copy;
}

}  // namespace

FAKE_EXPORT int nixl_capi_create_xfer_dlist(int, void** list) {
  const Lock lock(mutex());
  *list = new std::vector<Range>;
  count("live_lists");
  return kSuccess;
}

FAKE_EXPORT int nixl_capi_destroy_xfer_dlist(void* list) {
  const Lock lock(mutex());
  delete static_cast<std::vector<Range>*>(list);
  count("live_lists", -1);
  return kSuccess;
}

FAKE_EXPORT int nixl_capi_xfer_dlist_add_desc(void* list, uintptr_t address, size_t bytes,
                                              uint64_t) {
  static_cast<std::vector<Range>*>(list)->push_back({address, bytes});
  return kSuccess;
}

FAKE_EXPORT int nixl_capi_create_xfer_req(void* handle, int operation, void* localList,
                                          void* remoteList, const char* peer, void** request,
                                          void* options) {
  const Lock lock(mutex());
  const auto& agent = agentOf(handle);
  const auto& local = *static_cast<std::vector<Range>*>(localList);
  const auto& remote = *static_cast<std::vector<Range>*>(remoteList);
  const auto known = agent->remotes.find(peer);
  if (takeKnob("fail_create") || known == agent->remotes.end()) return kBackend;
  if (local.empty() || local.size() != remote.size()) return kBackend;
  auto made = std::make_unique<Request>();
  made->backend = backendOf(*agent, *known->second, static_cast<Options*>(options));
  if (made->backend.empty()) return kBackend;
  for (size_t i = 0; i < local.size(); i++) {
    if (local[i].bytes != remote[i].bytes) return kBackend;
    if (!isInside(agent->regions, local[i]) || !isInside(known->second->regions, remote[i])) {
      return kBackend;
    }
    made->pieces.push_back({local[i].address, remote[i].address, local[i].bytes});
  }
  made->agent = agent;
  made->peer = peer;
  made->remote = known->second;
  made->isRead = operation == 0;  // any other number is accepted, and writes
  count("descriptors", static_cast<int64_t>(made->pieces.size()));
  count("live_requests");
  *request = *liveRequests().insert(made.release()).first;
  return kSuccess;
}

FAKE_EXPORT int nixl_capi_post_xfer_req(void* handle, void* requestHandle, void* options) {
  int64_t blockUs = 0;
  {
    const Lock lock(mutex());
    blockUs = knob("block_post_us");
  }
  if (blockUs > 0) std::this_thread::sleep_for(std::chrono::microseconds(blockUs));
  const Lock lock(mutex());
  const auto& agent = agentOf(handle);
  Request& request = requestOf(requestHandle);
  count("posts");
  agent->polls += 1;
  if (request.isReleased) return kInvalidParameter;
  if (request.copy != nullptr && request.copy->status == kInProgress) return kBackend;
  if (!isRemoteKnown(request)) return kNotFound;
  count("posts." + request.backend);
  if (takeKnob("fail_post." + request.backend)) return kBackend;
  if (takeKnob("fail_post") || !isAlive(*request.remote)) return kBackend;
  if (options != nullptr) {
    request.hasNotification = static_cast<Options*>(options)->hasNotification;
    request.notification = static_cast<Options*>(options)->notification;
  }
  for (const Piece& piece : request.pieces) {
    if (piece.remote + piece.bytes < piece.remote)
      die("a remote address wraps: the target would crash");
  }
  request.copy = makeCopy(request);
  Copy& copy = *request.copy;
  const bool isDelayed =
      knob("delay_us") > 0 || copy.pollsLeft > 0 || copy.isNeverEnding || copy.isWaitingForTarget;
  if (isDelayed) {
    startCopy(request.copy);
    return kInProgress;
  }
  copy.status = performCopy(copy) ? kSuccess : kBackend;
  if (copy.status == kSuccess && copy.hasNotification && !takeKnob("drop_transfer_notifications")) {
    deliver(agent, *copy.remote, copy.notification);
  }
  return copy.status;
}

FAKE_EXPORT int nixl_capi_get_xfer_status(void* handle, void* requestHandle) {
  const Lock lock(mutex());
  const auto& agent = agentOf(handle);
  Request& request = requestOf(requestHandle);
  count("polls");
  agent->polls += 1;
  exchange(agent);
  if (request.isReleased) die("status of a released request: the real library crashes here");
  if (request.copy == nullptr || !isRemoteKnown(request)) return kBackend;
  if (takeKnob("fail_status")) return request.copy->status = kBackend;
  return pollCopy(*request.copy);
}

FAKE_EXPORT int nixl_capi_release_xfer_req(void* handle, void* requestHandle) {
  const Lock lock(mutex());
  agentOf(handle);
  Request& request = requestOf(requestHandle);
  if (request.isReleased) return kInvalidParameter;
  request.isReleased = true;
  // "Success", and the copy goes on.
  if (request.copy != nullptr && request.copy->status == kInProgress) count("copies_after_release");
  return kSuccess;
}

FAKE_EXPORT int nixl_capi_destroy_xfer_req(void* requestHandle) {
  const Lock lock(mutex());
  Request& request = requestOf(requestHandle);
  liveRequests().erase(&request);
  delete &request;
  count("live_requests", -1);
  return kSuccess;
}

FAKE_EXPORT int nixl_capi_gen_notif(void* handle, const char* peer, const void* bytes, size_t size,
                                    void*) {
  const Lock lock(mutex());
  const auto& agent = agentOf(handle);
  const auto known = agent->remotes.find(peer);
  if (known == agent->remotes.end()) return kNotFound;
  if (takeKnob("fail_notify")) return kBackend;
  deliver(agent, *known->second, std::string(static_cast<const char*>(bytes), size));
  return kSuccess;
}

FAKE_EXPORT int nixl_capi_get_notifs(void* handle, void* mapHandle, void*) {
  const Lock lock(mutex());
  const auto& agent = agentOf(handle);
  auto& map = *static_cast<NotificationMap*>(mapHandle);
  agent->polls += 1;
  count("polls");
  exchange(agent);
  if (takeKnob("fail_poll")) return kBackend;
  for (Notification& each : agent->inbox) {  // appends, as the real one does
    auto at = map.begin();
    while (at != map.end() && at->first != each.from) ++at;
    if (at == map.end()) at = map.insert(map.end(), {each.from, {}});
    at->second.push_back(std::move(each.message));
  }
  agent->inbox.clear();
  return kSuccess;
}

FAKE_EXPORT int nixl_capi_create_notif_map(void** map) {
  const Lock lock(mutex());
  *map = new NotificationMap;
  count("live_maps");
  return kSuccess;
}

FAKE_EXPORT int nixl_capi_destroy_notif_map(void* map) {
  const Lock lock(mutex());
  delete static_cast<NotificationMap*>(map);
  count("live_maps", -1);
  return kSuccess;
}

FAKE_EXPORT int nixl_capi_notif_map_size(void* map, size_t* size) {
  *size = static_cast<NotificationMap*>(map)->size();
  return kSuccess;
}

FAKE_EXPORT int nixl_capi_notif_map_get_agent_at(void* map, size_t index, const char** name) {
  const auto& all = *static_cast<NotificationMap*>(map);
  if (index >= all.size()) return kInvalidParameter;
  *name = all[index].first.c_str();
  return kSuccess;
}

FAKE_EXPORT int nixl_capi_notif_map_get_notifs_size(void* map, const char* name, size_t* size) {
  for (const auto& [from, messages] : *static_cast<NotificationMap*>(map)) {
    if (from != name) continue;
    *size = messages.size();
    return kSuccess;
  }
  return kInvalidParameter;
}

FAKE_EXPORT int nixl_capi_notif_map_get_notif(void* map, const char* name, size_t index,
                                              const void** bytes, size_t* size) {
  for (const auto& [from, messages] : *static_cast<NotificationMap*>(map)) {
    if (from != name || index >= messages.size()) continue;
    *bytes = messages[index].data();
    *size = messages[index].size();
    return kSuccess;
  }
  return kInvalidParameter;
}

FAKE_EXPORT int nixl_capi_notif_map_clear(void* map) {
  static_cast<NotificationMap*>(map)->clear();
  return kSuccess;
}
