// What JS asks of an agent's fences.
#include <utility>

#include "agent_wrap.h"
#include "arguments.h"
#include "event_wrap.h"
#include "result_value.h"

namespace kvferry {

Napi::Value AgentWrap::createFence(const Napi::CallbackInfo& info) {
  uint64_t fence = 0;
  const Result result = agent_->createFence(&fence);
  if (!result.ok()) return throwResult(info.Env(), result);
  return Napi::Number::New(info.Env(), static_cast<double>(fence));
}

Napi::Value AgentWrap::signalFence(const Napi::CallbackInfo& info) {
  uint64_t fence = 0;
  uint64_t delayUs = 0;
  if (!readInteger(info[0], "fence", &fence)) return info.Env().Undefined();
  if (!readInteger(info[1], "delayUs", &delayUs)) return info.Env().Undefined();
  const Result result = agent_->signalFence(fence, delayUs);
  return result.ok() ? info.Env().Undefined() : throwResult(info.Env(), result);
}

/** `signalFenceAfter(fence, event)`. */
Napi::Value AgentWrap::signalFenceAfter(const Napi::CallbackInfo& info) {
  uint64_t fence = 0;
  if (!readInteger(info[0], "fence", &fence)) return info.Env().Undefined();
  std::shared_ptr<CudaEvent> event = EventWrap::eventOf(info[1], "event");
  if (event == nullptr) return info.Env().Undefined();
  const Result result = agent_->signalFenceAfter(fence, std::move(event));
  return result.ok() ? info.Env().Undefined() : throwResult(info.Env(), result);
}

}  // namespace kvferry
