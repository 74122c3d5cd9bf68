#include "environment.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <string_view>

namespace kvferry {
namespace {

bool isVariableName(const std::string& name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
}

/** Descriptors of this process, without the one that reads the list. */
std::vector<int> openDescriptors() {
  std::vector<int> descriptors;
  DIR* directory = opendir("/proc/self/fd");
  if (directory == nullptr) return descriptors;
  const int own = dirfd(directory);
  while (const dirent* entry = readdir(directory)) {
    char* end = nullptr;
    const long number = std::strtol(entry->d_name, &end, 10);
    if (end != entry->d_name && *end == '\0' && number != own) {
      descriptors.push_back(static_cast<int>(number));
    }
  }
  closedir(directory);
  std::sort(descriptors.begin(), descriptors.end());
  return descriptors;
}

/**
 * Sockets, pipes, event and epoll descriptors, and files without a name (shared memory of UCX).
 * Named files are left alone: someone may mean to hand them to a child. Read from the link, not
 * from the descriptor, which another thread may be closing.
 */
bool isNameless(int descriptor) {
  char target[256];
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  const ssize_t length = readlink(link.c_str(), target, sizeof target);
  if (length <= 0) return false;
  const std::string_view name(target, static_cast<size_t>(length));
  constexpr std::string_view kDeleted = " (deleted)";
  const bool isDeleted =
      name.size() > kDeleted.size() && name.substr(name.size() - kDeleted.size()) == kDeleted;
  return name[0] != '/' || isDeleted;
}

}  // namespace

Result applyEnvironment(const EnvironmentOptions& options, std::string* log) {
  static std::mutex mutex;
  static bool isApplied = false;
  std::lock_guard<std::mutex> lock(mutex);
  for (const auto& [name, value] : options.variables) {
    if (!isVariableName(name) || value.find('\0') != std::string::npos) {
      return Result::outOfRange("environment", "not an environment variable: " + name);
    }
  }
  if (!isApplied) {
    const auto setDefault = [](const std::string& name, const std::string& value) {
      setenv(name.c_str(), value.c_str(), 0);
    };
    for (const auto& [name, value] : options.variables) setDefault(name, value);
    setDefault("UCX_DEBUG_SIGNO", "0");
    setDefault("UCX_HANDLE_ERRORS", "none");
    setDefault("UCX_NET_DEVICES", "lo");
    // UCX tests its hooks by moving the end of the heap up and down again. What another thread's
    // malloc put there in between is gone: a crash in one start of 150. Nor does it patch libc
    // then.
    setDefault("UCX_MEM_EVENTS", "n");
    setDefault("UCX_WARN_UNUSED_ENV_VARS", "n");
    setDefault("UCX_PROTO_INFO", "y");
    if (!options.logFile.empty()) setDefault("UCX_LOG_FILE", options.logFile);
    isApplied = true;
  }
  const char* file = std::getenv("UCX_LOG_FILE");
  *log = file != nullptr ? file : "";
  return Result::success();
}

DescriptorWatch::DescriptorWatch() : known_(openDescriptors()) {}

int DescriptorWatch::markNew() {
  int changed = 0;
  const std::vector<int> now = openDescriptors();
  // A known number that was closed meanwhile may come back as one of UCX's.
  known_.erase(std::remove_if(known_.begin(), known_.end(),
                              [&now](int descriptor) {
                                return !std::binary_search(now.begin(), now.end(), descriptor);
                              }),
               known_.end());
  for (const int descriptor : now) {
    if (descriptor <= 2 || std::binary_search(known_.begin(), known_.end(), descriptor)) continue;
    if (!isNameless(descriptor)) continue;
    const int flags = fcntl(descriptor, F_GETFD);
    if (flags < 0 || (flags & FD_CLOEXEC) != 0) continue;
    if (fcntl(descriptor, F_SETFD, flags | FD_CLOEXEC) == 0) changed += 1;
  }
  return changed;
}

}  // namespace kvferry
