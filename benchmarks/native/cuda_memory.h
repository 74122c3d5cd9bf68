// Memory of a GPU for the bare loop, by the few driver calls that it needs. Declared anew here, not shared with the product: the
// baseline must not change when the product does.
#pragma once

#include <cstdint>
#include <cstdlib>

#include "nixl_table.h"

class CudaMemory {
 public:
  /** On GPU `device`, in its primary context, which is the only one that the library copies in. */
  CudaMemory(int device, uint64_t bytes) {
    const char* named = std::getenv("KVFERRY_CUDA_LIBRARY");
    library_ = dlopen(named != nullptr ? named : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library_ == nullptr) die(dlerror());
    int handle = 0;
    void* context = nullptr;
    call<int (*)(unsigned)>("cuInit", 0u);
    call<int (*)(int*, int)>("cuDeviceGet", &handle, device);
    call<int (*)(void**, int)>("cuDevicePrimaryCtxRetain", &context, handle);
    call<int (*)(void*)>("cuCtxSetCurrent", context);
    call<int (*)(uint64_t*, size_t)>("cuMemAlloc_v2", &address_, bytes);
  }

  uint64_t address() const { return address_; }

  /** Between any two addresses, of the host or the GPU; it is done on return. */
  void copy(uint64_t to, uint64_t from, uint64_t bytes) const {
    void* const stream = nullptr;
    call<int (*)(uint64_t, uint64_t, size_t, void*)>("cuMemcpyAsync", to, from, bytes, stream);
    call<int (*)(void*)>("cuStreamSynchronize", stream);
  }

 private:
  template <typename Function, typename... Arguments>
  void call(const char* name, Arguments... arguments) const {
    const auto function = reinterpret_cast<Function>(dlsym(library_, name));
    if (function == nullptr) die(name);
    const int status = function(arguments...);
    if (status != 0) die(name, status);
  }

  void* library_ = nullptr;
  uint64_t address_ = 0;
};
