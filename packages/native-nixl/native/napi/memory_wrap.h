// `Memory` of the binding: one HostMemory and, on demand, the ArrayBuffer over it. The buffer is detached
// when the memory is freed, so JS can't reach unmapped pages. Collected without `free`, both go when the
// last of the wrap, the buffer and the pins of agents and kernels goes. JS thread only.
#pragma once

#include <memory>

#include "../host_memory.h"
#include "napi_setup.h"

namespace kvferry {

class MemoryWrap final : public Napi::ObjectWrap<MemoryWrap> {
 public:
  static Napi::Function define(Napi::Env env);
  /** `new Memory(sizeBytes, isHuge, source)`: null for private pages, true for a memfd, or a descriptor. */
  explicit MemoryWrap(const Napi::CallbackInfo& info);

  /** The live memory of a `Memory` of this addon; null with a pending exception for anything else. */
  static std::shared_ptr<HostMemory> memoryOf(const Napi::Value& value, const char* name);

 private:
  Napi::Value free(const Napi::CallbackInfo& info);
  Napi::Value buffer(const Napi::CallbackInfo& info);
  Napi::Value address(const Napi::CallbackInfo& info);
  Napi::Value descriptor(const Napi::CallbackInfo& info);

  std::shared_ptr<HostMemory> memory_;
  Napi::Reference<Napi::ArrayBuffer> buffer_;
  bool isFreed_ = false;
};

}  // namespace kvferry
