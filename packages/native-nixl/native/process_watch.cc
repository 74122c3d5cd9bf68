#include "process_watch.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace kvferry {

ProcessWatch::ProcessWatch(const ProcessId& process) : process_(process) {
  if (process.pid == 0 || process.machine != ownProcess().machine) return;
  descriptor_ = static_cast<int>(syscall(SYS_pidfd_open, static_cast<pid_t>(process.pid), 0));
  // Its number may have been given out again before: what is open now is its successor.
  hasEnded_ = hasProvablyEnded(process);
}

ProcessWatch::~ProcessWatch() {
  if (descriptor_ >= 0) close(descriptor_);
}

bool ProcessWatch::hasEnded() {
  if (hasEnded_) return true;
  if (descriptor_ < 0) {
    hasEnded_ = hasProvablyEnded(process_);
  } else {
    pollfd asked{descriptor_, POLLIN, 0};
    hasEnded_ = poll(&asked, 1, 0) > 0;
  }
  return hasEnded_;
}

}  // namespace kvferry
