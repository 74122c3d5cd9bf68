// Process-wide set-up around the library: environment variables that UCX reads when its first
// context is made, and sockets that must not leak into child processes. Call from the main JS
// thread before the first agent: setenv isn't safe beside other threads that read the environment.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "status.h"

namespace kvferry {

struct EnvironmentOptions {
  /** Where UCX writes its log. Never empty in production: its default is stdout. */
  std::string logFile;
  /** Applied before the defaults, so that they win over them; never over the user's own
   * environment. */
  std::vector<std::pair<std::string, std::string>> variables;
};

/**
 * Sets each variable that is unset: UCX_DEBUG_SIGNO=0 (or UCX takes SIGHUP over),
 * UCX_HANDLE_ERRORS=none, UCX_NET_DEVICES=lo, UCX_MEM_EVENTS=n (or it moves the heap's end beside
 * running threads), UCX_WARN_UNUSED_ENV_VARS=n, UCX_LOG_FILE, UCX_PROTO_INFO=y. Does something once
 * per process; later calls change nothing. `log` receives the log file in force. kOutOfRange for a
 * name that isn't [A-Z0-9_]+ or a value with a zero byte.
 */
Result applyEnvironment(const EnvironmentOptions& options, std::string* log);

/**
 * Remembers the descriptors open now; `markNew` sets close-on-exec on nameless ones (sockets,
 * pipes, epoll, deleted files) opened since: UCX opens them without. Used by the agent's thread.
 */
class DescriptorWatch {
 public:
  DescriptorWatch();
  /** Number of descriptors changed. */
  int markNew();

 private:
  std::vector<int> known_;
};

}  // namespace kvferry
