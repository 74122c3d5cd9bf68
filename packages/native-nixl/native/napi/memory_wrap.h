// `Memory` of the binding: memory of the host, with the ArrayBuffer over it on demand, or of a GPU. The buffer is detached
// when the memory is freed, so JS can't reach unmapped pages. Collected without `free`, both go when the
// last of the wrap, the buffer and the pins of agents and kernels goes. JS thread only.
#pragma once

#include <memory>

#include "../device_memory.h"
#include "../host_memory.h"
#include "napi_setup.h"

namespace kvferry {

class MemoryWrap final : public Napi::ObjectWrap<MemoryWrap> {
 public:
  static Napi::Function define(Napi::Env env);
  /**
   * `new Memory(sizeBytes, isHuge, source)`: null for private pages, true for a memfd, or a descriptor.
   * `new Memory(sizeBytes, isVirtual, source, library, device)` for a GPU's: null to allocate, bytes of a
   * handle, or a descriptor.
   */
  explicit MemoryWrap(const Napi::CallbackInfo& info);

  /** The live memory of a `Memory` of this addon; null with a pending exception for anything else. */
  static std::shared_ptr<Memory> memoryOf(const Napi::Value& value, const char* name);

 private:
  Napi::Value free(const Napi::CallbackInfo& info);
  Napi::Value buffer(const Napi::CallbackInfo& info);
  Napi::Value address(const Napi::CallbackInfo& info);
  Napi::Value descriptor(const Napi::CallbackInfo& info);
  Napi::Value sizeBytes(const Napi::CallbackInfo& info);
  /** `isTarget()`: peers can reach it through the library. */
  Napi::Value isTarget(const Napi::CallbackInfo& info);
  /** `lockFor(library, device)`: page-locks host memory. */
  Napi::Value lockFor(const Napi::CallbackInfo& info);
  /** `exportHandle()` and `exportDescriptor()`, of a GPU's memory. */
  Napi::Value exportHandle(const Napi::CallbackInfo& info);
  Napi::Value exportDescriptor(const Napi::CallbackInfo& info);
  /** `read(offset, into)` and `write(offset, from)`, of a GPU's memory. Blocking. */
  Napi::Value read(const Napi::CallbackInfo& info);
  Napi::Value write(const Napi::CallbackInfo& info);
  /** Null with a pending exception for host memory, and once freed. */
  DeviceMemory* onDevice(Napi::Env env) const;

  std::shared_ptr<Memory> memory_;
  Napi::Reference<Napi::ArrayBuffer> buffer_;
  bool isFreed_ = false;
};

}  // namespace kvferry
