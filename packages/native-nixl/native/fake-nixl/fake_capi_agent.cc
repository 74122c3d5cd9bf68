// The fake's C functions: agents, backends, parameters, registration, metadata. Signatures and
// answers as measured with the real library.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "fake_capi.h"

using namespace fakenixl;

namespace {

uint64_t nextIncarnation() {
  static uint64_t counter = 0;
  // Unlike in other processes, also if a process id comes back.
  static const auto start = static_cast<uint64_t>(Clock::now().time_since_epoch().count());
  return start + counter++;
}

void putNumber(std::string& blob, uint64_t value) {
  for (int i = 0; i < 8; i++) blob.push_back(static_cast<char>(value >> (8 * i)));
}

void putField(std::string& blob, const char* tag, const std::string& bytes) {
  blob += tag;
  putNumber(blob, bytes.size());
  blob += bytes;
  blob += '|';
}

std::string number(uint64_t value) {
  std::string bytes;
  putNumber(bytes, value);
  return bytes;
}

/** Reads one field; false when it isn't there or is cut. */
bool takeField(const std::string& blob, size_t* at, const char* tag, std::string* bytes) {
  const size_t tagBytes = std::strlen(tag);
  if (blob.compare(*at, tagBytes, tag) != 0 || blob.size() - *at < tagBytes + 9) return false;
  uint64_t length = 0;
  std::memcpy(&length, blob.data() + *at + tagBytes, 8);
  const size_t first = *at + tagBytes + 8;
  if (length >= blob.size() - first || blob[first + length] != '|') return false;
  *bytes = blob.substr(first, length);
  *at = first + length + 1;
  return true;
}

bool takeNumber(const std::string& blob, size_t* at, const char* tag, uint64_t* value) {
  std::string bytes;
  if (!takeField(blob, at, tag, &bytes) || bytes.size() != 8) return false;
  std::memcpy(value, bytes.data(), 8);
  return true;
}

constexpr char kStart[] = "nixlSerDes|";

constexpr const char* kBackends[] = {"UCX", "LIBFABRIC"};

bool hasBackend(const std::vector<std::string>& all, const std::string& name) {
  return std::find(all.begin(), all.end(), name) != all.end();
}

std::string encode(const Agent& agent) {
  std::string blob = kStart;
  putField(blob, "Agent", agent.name);
  putField(blob, "Pid", number(static_cast<uint64_t>(getpid())));
  putField(blob, "Incarnation", number(agent.incarnation));
  std::string backends;
  for (const std::string& name : agent.backends) backends += name + ',';
  putField(blob, "Backends", backends);
  std::string regions;
  for (const Range& range : agent.regions) {
    putNumber(regions, range.address);
    putNumber(regions, range.bytes);
  }
  putField(blob, "Regions", regions);
  return blob;
}

std::shared_ptr<Remote> decode(const std::string& blob) {
  auto remote = std::make_shared<Remote>();
  if (blob.rfind(kStart, 0) != 0) return nullptr;
  size_t at = sizeof kStart - 1;
  uint64_t pid = 0;
  std::string backends;
  std::string regions;
  const bool isWhole = takeField(blob, &at, "Agent", &remote->name) &&
                       takeNumber(blob, &at, "Pid", &pid) &&
                       takeNumber(blob, &at, "Incarnation", &remote->incarnation) &&
                       takeField(blob, &at, "Backends", &backends) &&
                       takeField(blob, &at, "Regions", &regions) && regions.size() % 16 == 0;
  if (!isWhole) return nullptr;
  remote->pid = static_cast<pid_t>(pid);
  for (size_t from = 0, end; (end = backends.find(',', from)) != std::string::npos; from = end + 1) {
    remote->backends.push_back(backends.substr(from, end - from));
  }
  for (size_t i = 0; i < regions.size(); i += 16) {
    Range range;
    std::memcpy(&range.address, regions.data() + i, 8);
    std::memcpy(&range.bytes, regions.data() + i + 8, 8);
    remote->regions.push_back(range);
  }
  return remote;
}

}  // namespace

FAKE_EXPORT bool nixl_capi_is_stub(void) {
  return std::getenv("KVFERRY_FAKE_NIXL_STUB") != nullptr;
}

FAKE_EXPORT int nixl_capi_create_configured_agent(const char* name, const void* config,
                                                  void** agent) {
  if (name == nullptr || config == nullptr || agent == nullptr) return kInvalidParameter;
  const Lock lock(mutex());
  if (*name == '\0' || takeKnob("fail_init")) return kBackend;
  auto made = std::make_shared<Agent>();
  made->name = name;
  made->incarnation = nextIncarnation();
  made->owner = std::this_thread::get_id();
  addAgent(made);
  *agent = new AgentBox{std::move(made)};
  count("live_agents");
  return kSuccess;
}

FAKE_EXPORT int nixl_capi_destroy_agent(void* handle) {
  const Lock lock(mutex());
  // As the real one, it takes back by itself what it was told of.
  const auto agent = agentOf(handle);
  count("live_remotes", -static_cast<int64_t>(agent->remotes.size()));
  removeAgent(agent);
  delete static_cast<AgentBox*>(handle);
  count("live_agents", -1);
  return kSuccess;
}

FAKE_EXPORT int nixl_capi_create_params(void** params) {
  const Lock lock(mutex());
  *params = new std::map<std::string, std::string>;
  count("live_params");
  return kSuccess;
}

FAKE_EXPORT int nixl_capi_params_add(void* params, const char* key, const char* value) {
  (*static_cast<std::map<std::string, std::string>*>(params))[key] = value;
  return kSuccess;
}

FAKE_EXPORT int nixl_capi_destroy_params(void* params) {
  const Lock lock(mutex());
  delete static_cast<std::map<std::string, std::string>*>(params);
  count("live_params", -1);
  return kSuccess;
}

FAKE_EXPORT int nixl_capi_create_backend(void* handle, const char* type, void* params,
                                         void** backend) {
  if (type == nullptr) return kInvalidParameter;
  const Lock lock(mutex());
  const auto& agent = agentOf(handle);
  const std::string name = type;
  const auto known = std::find(std::begin(kBackends), std::end(kBackends), name);
  const bool isKnown = known != std::end(kBackends);
  if (!isKnown || hasBackend(agent->backends, name)) return kBackend;
  if (takeKnob("fail_backend") || takeKnob("fail_backend." + name)) return kBackend;
  agent->backends.push_back(name);
  count("created." + name);
  for (const auto& [key, value] : *static_cast<std::map<std::string, std::string>*>(params)) {
    count("parameter." + name + '.' + key + '.' + value);
  }
  *backend = new std::string(type);
  return kSuccess;
}

FAKE_EXPORT int nixl_capi_destroy_backend(void* backend) {
  delete static_cast<std::string*>(backend);
  return kSuccess;
}

FAKE_EXPORT int nixl_capi_create_reg_dlist(int, void** list) {
  const Lock lock(mutex());
  *list = new std::vector<Range>;
  count("live_lists");
  return kSuccess;
}

FAKE_EXPORT int nixl_capi_destroy_reg_dlist(void* list) {
  const Lock lock(mutex());
  delete static_cast<std::vector<Range>*>(list);
  count("live_lists", -1);
  return kSuccess;
}

FAKE_EXPORT int nixl_capi_reg_dlist_add_desc(void* list, uintptr_t address, size_t bytes, uint64_t,
                                             const void*, size_t) {
  static_cast<std::vector<Range>*>(list)->push_back({address, bytes});
  return kSuccess;
}

FAKE_EXPORT int nixl_capi_register_mem(void* handle, void* list, void*) {
  const Lock lock(mutex());
  const auto& agent = agentOf(handle);
  if (agent->backends.empty() || takeKnob("fail_register")) return kBackend;
  // Like UCX on CPU: no look at whether the pages exist, and overlaps are fine.
  for (const Range& range : *static_cast<std::vector<Range>*>(list)) {
    agent->regions.push_back(range);
    count("registered");
    for (const std::string& name : agent->backends) count("registrations." + name);
  }
  return kSuccess;
}

FAKE_EXPORT int nixl_capi_deregister_mem(void* handle, void* list, void*) {
  const Lock lock(mutex());
  const auto& agent = agentOf(handle);
  if (takeKnob("fail_deregister")) return kBackend;
  for (const Range& range : *static_cast<std::vector<Range>*>(list)) {
    const auto found =
        std::find_if(agent->regions.begin(), agent->regions.end(), [&](const Range& each) {
          return each.address == range.address && each.bytes == range.bytes;
        });
    if (found == agent->regions.end()) return kNotFound;
    agent->regions.erase(found);
    count("registered", -1);
  }
  return kSuccess;
}

FAKE_EXPORT int nixl_capi_get_local_md(void* handle, void** bytes, size_t* size) {
  const Lock lock(mutex());
  const std::string blob = encode(*agentOf(handle));
  *bytes = std::malloc(blob.size());
  std::memcpy(*bytes, blob.data(), blob.size());
  *size = blob.size();
  return kSuccess;
}

FAKE_EXPORT int nixl_capi_load_remote_md(void* handle, const void* bytes, size_t size,
                                         char** name) {
  const Lock lock(mutex());
  const auto& agent = agentOf(handle);
  if (bytes == nullptr || size == 0) return kInvalidParameter;
  if (takeKnob("fail_load")) return kBackend;
  auto remote = decode(std::string(static_cast<const char*>(bytes), size));
  if (remote == nullptr || remote->name == agent->name) return kInvalidParameter;
  const bool isReachable =
      std::any_of(remote->backends.begin(), remote->backends.end(),
                  [&](const std::string& each) { return hasBackend(agent->backends, each); });
  if (!isReachable) return kBackend;
  const auto known = agent->remotes.find(remote->name);
  const bool isOther =
      known != agent->remotes.end() && known->second->incarnation != remote->incarnation;
  if (isOther) return kBackend;  // NOT_ALLOWED in the log of the real one
  *name = strdup(remote->name.c_str());
  if (known != agent->remotes.end()) {
    known->second->regions = remote->regions;
  } else {
    agent->remotes[remote->name] = std::move(remote);
    count("live_remotes");
  }
  return kSuccess;
}

FAKE_EXPORT int nixl_capi_invalidate_remote_md(void* handle, const char* name) {
  const Lock lock(mutex());
  if (agentOf(handle)->remotes.erase(name) == 0) return kNotFound;
  count("live_remotes", -1);
  return kSuccess;
}

FAKE_EXPORT int nixl_capi_agent_make_connection(void* handle, const char* name, void*) {
  const Lock lock(mutex());
  const auto& agent = agentOf(handle);
  if (agent->remotes.count(name) == 0) return kNotFound;
  if (takeKnob("fail_connect")) return kBackend;
  count("connections");
  return kSuccess;
}
