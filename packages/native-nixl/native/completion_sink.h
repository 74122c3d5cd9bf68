// How the native half says "there is something to drain". Implemented by the binding (one
// thread-safe function) and by tests. Called from threads of ours, only when a done list goes from
// empty to non-empty, and never after the `shutdownNow` or the destructor of the caller has
// returned.
#pragma once

namespace kvferry {

class CompletionSink {
 public:
  CompletionSink() = default;
  virtual ~CompletionSink() = default;
  CompletionSink(const CompletionSink&) = delete;
  CompletionSink& operator=(const CompletionSink&) = delete;

  /** Must return soon, must not call back into the caller (no drain, no post). */
  virtual void notify() noexcept = 0;
};

}  // namespace kvferry
