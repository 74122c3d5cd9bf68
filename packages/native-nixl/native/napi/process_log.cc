#include "process_log.h"

#include <cstdlib>
#include <cstring>

#include <sys/mman.h>
#include <unistd.h>

namespace kvferry {

std::string processLogPath() {
  // Names the process, not "self", so that a child that inherits it can't take one of its own
  // descriptors for a log. Open until the process ends, since UCX may reopen it.
  static const std::string path = [] {
    const int descriptor = ::memfd_create("kvferry-ucx-log", MFD_CLOEXEC);
    if (descriptor < 0) return std::string();
    return "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(descriptor);
  }();
  return path;
}

void forgetInheritedLog() {
  const char* value = std::getenv("UCX_LOG_FILE");
  if (value == nullptr || std::strncmp(value, "/proc/", 6) != 0) return;
  const std::string own = "/proc/" + std::to_string(::getpid()) + "/";
  if (std::strncmp(value, own.c_str(), own.size()) != 0) ::unsetenv("UCX_LOG_FILE");
}

}  // namespace kvferry
