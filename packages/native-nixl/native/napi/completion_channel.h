// The way from native threads to JS: one thread-safe function, called when a done list goes from empty to
// non-empty. It keeps the process alive only while something is pending. Shutdown order (the owner's
// duty): stop the threads that notify, join them, then `close`.
#pragma once

#include <functional>

#include "../completion_sink.h"
#include "napi_setup.h"

namespace kvferry {

class CompletionChannel final : public CompletionSink {
 public:
  /** `drain` runs on the JS thread with an open handle scope. */
  CompletionChannel(Napi::Env env, const char* name, std::function<void(Napi::Env)> drain);
  ~CompletionChannel() override;

  /** Any thread, until that thread was joined. */
  void notify() noexcept override;

  /** JS thread. One more, or fewer, things that the process must stay alive for. */
  void addPending(uint64_t count);
  void removePending(uint64_t count);

  /** JS thread; idempotent. What was notified and not drained yet is dropped. */
  void close();

 private:
  /** Owned by the thread-safe function, which may outlive the channel by a turn of the loop. */
  struct Link {
    CompletionChannel* channel;
  };
  static void callJs(napi_env env, napi_value function, void* context, void* data);

  napi_env env_;
  std::function<void(Napi::Env)> drain_;
  Link* link_ = nullptr;
  napi_threadsafe_function function_ = nullptr;
  uint64_t pending_ = 0;
};

}  // namespace kvferry
