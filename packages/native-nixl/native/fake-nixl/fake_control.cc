// Knobs and counters of the fake. Set by KVFERRY_FAKE_NIXL="name=value,name=value" when the library
// is loaded, or by the exported functions. Knobs:
//   delay_us            a post answers "in progress"; the copy is done that much later (half at
//   once) delay_polls         a post answers "in progress"; the copy is done at the n-th poll of
//   its status block_post_us       a post sleeps so long before it does anything target_must_poll
//   1: a delayed copy waits until the target's agent has polled once more never_complete      the
//   next n posts never end (until complete_all is set) complete_all        ends what never ends
//   fail_init, fail_backend, fail_register, fail_deregister, fail_load, fail_connect, fail_create,
//   fail_post, fail_status, fail_notify, fail_poll      the next n calls answer BACKEND
//   fail_backend.NAME, fail_post.NAME      the same of one backend (UCX, LIBFABRIC)
//   drop_notifications  the next n notifications get lost
//   drop_transfer_notifications  the next n of those that follow a transfer
// Counters: live_agents, live_lists, live_requests, live_options, live_maps, live_params, live_remotes,
//   copies, copies_after_release, posts, polls, descriptors, registered, connections; of each backend
//   created.NAME, registrations.NAME, posts.NAME, parameter.NAME.KEY.VALUE; most.COUNTER of what lives and of
//   what is registered. KVFERRY_FAKE_NIXL_COUNTERS names a file that gets them all as `name value` when the
//   process ends.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include "fake_state.h"

namespace fakenixl {
namespace {

struct Values {
  std::map<std::string, int64_t> knobs;
  std::map<std::string, int64_t> counters;
};

void applyEnvironment(std::map<std::string, int64_t>& knobs) {
  const char* text = std::getenv("KVFERRY_FAKE_NIXL");
  if (text == nullptr) return;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    const size_t equals = part.find('=');
    if (equals == std::string::npos) die("KVFERRY_FAKE_NIXL: no value in " + part);
    knobs[part.substr(0, equals)] = std::atoll(part.c_str() + equals + 1);
  }
}

/** Never destroyed: copies may go on while the process ends. */
Values& values() {
  static auto* all = [] {
    auto* made = new Values;
    applyEnvironment(made->knobs);
    return made;
  }();
  return *all;
}

}  // namespace

std::mutex& mutex() {
  static auto* lock = new std::mutex;
  return *lock;
}

void die(const std::string& reason) {
  const std::string line = "fake NIXL: " + reason + "\n";
  fwrite(line.data(), 1, line.size(), stderr);
  std::abort();
}

int64_t knob(const std::string& name) {
  const auto found = values().knobs.find(name);
  return found == values().knobs.end() ? 0 : found->second;
}

bool takeKnob(const std::string& name) {
  int64_t& value = values().knobs[name];
  if (value <= 0) return false;
  value -= 1;
  return true;
}

void count(const std::string& name, int64_t by) {
  auto& counters = values().counters;
  const int64_t now = counters[name] += by;
  const bool isOfLiving = name.rfind("live_", 0) == 0 || name == "registered";
  if (isOfLiving) counters["most." + name] = std::max(counters["most." + name], now);
}

namespace {

__attribute__((destructor)) void writeCounters() {
  const char* path = std::getenv("KVFERRY_FAKE_NIXL_COUNTERS");
  if (path == nullptr) return;
  std::ofstream file(path);
  std::lock_guard<std::mutex> lock(mutex());
  for (const auto& [name, value] : values().counters) file << name << ' ' << value << '\n';
}

}  // namespace

}  // namespace fakenixl

extern "C" {

__attribute__((visibility("default"))) void fake_nixl_set(const char* name, int64_t value) {
  std::lock_guard<std::mutex> lock(fakenixl::mutex());
  fakenixl::values().knobs[name] = value;
  if (std::strcmp(name, "complete_all") == 0) fakenixl::releaseNeverEnding();
}

__attribute__((visibility("default"))) int64_t fake_nixl_count(const char* name) {
  std::lock_guard<std::mutex> lock(fakenixl::mutex());
  return fakenixl::values().counters[name];
}

/** All knobs and counters back to zero, except those of living objects. */
__attribute__((visibility("default"))) void fake_nixl_reset(void) {
  std::lock_guard<std::mutex> lock(fakenixl::mutex());
  fakenixl::releaseNeverEnding();
  fakenixl::values().knobs.clear();
  for (auto& [name, value] : fakenixl::values().counters) {
    if (name.rfind("live_", 0) != 0) value = 0;
  }
}

}  // extern "C"
