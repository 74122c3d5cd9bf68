#include "completion_channel.h"

#include <utility>

namespace kvferry {

CompletionChannel::CompletionChannel(Napi::Env env, const char* name,
                                     std::function<void(Napi::Env)> drain)
    : env_(env), drain_(std::move(drain)), link_(new Link{this}) {
  const napi_status status = napi_create_threadsafe_function(
      env, nullptr, nullptr, Napi::String::New(env, name), 0, 1, link_,
      [](napi_env, void* data, void*) { delete static_cast<Link*>(data); }, link_, callJs, &function_);
  if (status != napi_ok) Napi::Error::Fatal("CompletionChannel", "no thread-safe function");
  napi_unref_threadsafe_function(env, function_);
}

CompletionChannel::~CompletionChannel() { close(); }

void CompletionChannel::notify() noexcept {
  // The queue is unbounded, but the callers notify only when a list stops being empty, so it holds one
  // entry, or two while one is being drained. During teardown this answers napi_closing: nobody listens.
  napi_call_threadsafe_function(function_, nullptr, napi_tsfn_nonblocking);
}

void CompletionChannel::addPending(uint64_t count) {
  if (pending_ == 0 && count > 0 && function_ != nullptr) {
    napi_ref_threadsafe_function(env_, function_);
  }
  pending_ += count;
}

void CompletionChannel::removePending(uint64_t count) {
  pending_ -= count;
  if (pending_ == 0 && count > 0 && function_ != nullptr) {
    napi_unref_threadsafe_function(env_, function_);
  }
}

void CompletionChannel::close() {
  if (function_ == nullptr) return;
  link_->channel = nullptr;
  napi_release_threadsafe_function(function_, napi_tsfn_abort);
  function_ = nullptr;
  link_ = nullptr;
}

void CompletionChannel::callJs(napi_env env, napi_value, void* context, void*) {
  // A null environment: it is being torn down, JS can't run any more. Then the link is gone as well:
  // Node calls this for what is still queued after the finalizer has run.
  if (env == nullptr) return;
  CompletionChannel* channel = static_cast<Link*>(context)->channel;
  if (channel == nullptr) return;
  channel->drain_(Napi::Env(env));
  // A listener threw. Node itself would only print a warning.
  bool isPending = false;
  napi_value exception = nullptr;
  if (napi_is_exception_pending(env, &isPending) == napi_ok && isPending &&
      napi_get_and_clear_last_exception(env, &exception) == napi_ok) {
    napi_fatal_exception(env, exception);
  }
}

}  // namespace kvferry
