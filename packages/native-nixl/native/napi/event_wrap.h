// `DeviceEvent` of the binding: an event of a GPU, ours, another process's, or one of this process that somebody
// else owns. Fences keep what they wait for, also once it was freed here. JS thread only.
#pragma once

#include <memory>

#include "../cuda_event.h"
#include "napi_setup.h"

namespace kvferry {

class EventWrap final : public Napi::ObjectWrap<EventWrap> {
 public:
  static Napi::Function define(Napi::Env env);
  /** `new DeviceEvent(library, device, source)`: null to make one, bytes of a handle, or the driver's pointer. */
  explicit EventWrap(const Napi::CallbackInfo& info);

  /** The event of a live `DeviceEvent` of this addon; null with a pending exception for anything else. */
  static std::shared_ptr<CudaEvent> eventOf(const Napi::Value& value, const char* name);

 private:
  /** `record(stream)`: the driver's pointer to it, 0n for the context's own. */
  Napi::Value record(const Napi::CallbackInfo& info);
  Napi::Value isDone(const Napi::CallbackInfo& info);
  Napi::Value exportHandle(const Napi::CallbackInfo& info);
  Napi::Value free(const Napi::CallbackInfo& info);
  /** Null with a pending exception once freed. */
  CudaEvent* live(Napi::Env env) const;

  std::shared_ptr<CudaEvent> event_;
};

}  // namespace kvferry
