#include "exit_guard.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <vector>

#include <unistd.h>

namespace kvferry {

namespace {

struct Registry {
  std::mutex mutex;
  std::vector<ExitGuarded*> guarded;
  std::atomic<bool> isSkipping{false};
  bool isRegistered = false;
  bool isRenewed = false;
};

/** Never destroyed: it is used by an exit handler. */
Registry& registry() {
  static Registry* instance = new Registry;
  return *instance;
}

void atExit(int exitCode, void*) {
  Registry& state = registry();
  std::vector<ExitGuarded*> guarded;
  {
    std::lock_guard<std::mutex> lock(state.mutex);
    guarded.swap(state.guarded);
  }
  bool hasLeftThreads = state.isSkipping;
  for (ExitGuarded* one : guarded) {
    if (!one->shutdownAtExit()) hasLeftThreads = true;
  }
  if (!hasLeftThreads) return;
  std::fflush(nullptr);
  ::_exit(exitCode);
}

}  // namespace

void guardAtExit(ExitGuarded* guarded) {
  Registry& state = registry();
  std::lock_guard<std::mutex> lock(state.mutex);
  if (!state.isRegistered) {
    state.isRegistered = true;
    ::on_exit(atExit, nullptr);
  }
  state.guarded.push_back(guarded);
}

void unguardAtExit(ExitGuarded* guarded) {
  Registry& state = registry();
  std::lock_guard<std::mutex> lock(state.mutex);
  auto& list = state.guarded;
  list.erase(std::remove(list.begin(), list.end(), guarded), list.end());
}

void renewExitHandler() {
  Registry& state = registry();
  std::lock_guard<std::mutex> lock(state.mutex);
  if (state.isRenewed) return;
  state.isRenewed = true;
  ::on_exit(atExit, nullptr);
}

void skipExitHandlers() { registry().isSkipping = true; }

}  // namespace kvferry
