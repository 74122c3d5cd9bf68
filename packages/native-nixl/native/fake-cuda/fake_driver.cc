// A driver without a GPU, for tests: the functions of cuda_api.h over memory of the host. Memory of "the GPU" lies in
// memfds, so that other processes can map it by handle as they map a GPU's. It is as treacherous as a
// driver: what is enqueued runs only when somebody waits or asks (so that a missing wait is seen), a
// process can't open its own handles, imported memory has no handle, and every call needs a context.
//
// KVFERRY_FAKE_CUDA_DEVICES: how many GPUs there are (default 2).
// KVFERRY_FAKE_CUDA_LINKS=0: none of them can map memory of another.
// KVFERRY_FAKE_CUDA_STALLED=1: no question lets anything happen, as when other work has the GPU.
// KVFERRY_FAKE_CUDA_BLOCKS_MAX: a launch of more blocks is refused.
// KVFERRY_FAKE_CUDA_QUERY_STATUS: what every question about an event answers, as after a kernel's error.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "fake_kernels.h"
#include "fake_state.h"

using namespace fakecuda;

FAKE_EXPORT int cuInit(unsigned) { return deviceCount() > 0 ? kSuccess : kNoDevice; }
FAKE_EXPORT int cuDriverGetVersion(int* version) {
  *version = 13'000;
  return kSuccess;
}
FAKE_EXPORT int cuGetErrorName(int status, const char** name) {
  static const std::map<int, const char*> names{
      {kInvalidValue, "CUDA_ERROR_INVALID_VALUE"},     {kInvalidDevice, "CUDA_ERROR_INVALID_DEVICE"},
      {kInvalidContext, "CUDA_ERROR_INVALID_CONTEXT"}, {kInvalidHandle, "CUDA_ERROR_INVALID_HANDLE"},
      {kNotFound, "CUDA_ERROR_NOT_FOUND"},
      {kPeerAccessUnsupported, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED"}};
  const auto found = names.find(status);
  if (found == names.end()) return kInvalidValue;
  *name = found->second;
  return kSuccess;
}
FAKE_EXPORT int cuDeviceGetCount(int* count) {
  *count = deviceCount();
  return kSuccess;
}
FAKE_EXPORT int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return isDevice(ordinal) ? kSuccess : kInvalidDevice;
}
FAKE_EXPORT int cuDeviceGetName(char* name, int length, int) {
  std::snprintf(name, static_cast<size_t>(length), "fake GPU");
  return kSuccess;
}
FAKE_EXPORT int cuDeviceGetUuid_v2(uint8_t* uuid, int device) {
  std::memset(uuid, device, 16);
  return kSuccess;
}
FAKE_EXPORT int cuDeviceGetPCIBusId(char* id, int length, int device) {
  std::snprintf(id, static_cast<size_t>(length), "0000:0%d:00.0", device + 1);
  return kSuccess;
}
FAKE_EXPORT int cuDeviceTotalMem_v2(size_t* bytes, int) {
  *bytes = size_t{1} << 40;
  return kSuccess;
}
FAKE_EXPORT int cuDeviceGetAttribute(int* value, int attribute, int) {
  *value = attribute == kvferry::cuda::kAttributeComputeMajor        ? 9
           : attribute == kvferry::cuda::kAttributeComputeMinor      ? 0
           : attribute == kvferry::cuda::kAttributeHostPointersUsable ? 1
                                                                      : 2;
  return kSuccess;
}
FAKE_EXPORT int cuDeviceCanAccessPeer(int* can, int from, int to) {
  *can = from != to && areLinked(from, to) ? 1 : 0;
  return kSuccess;
}
FAKE_EXPORT int cuCtxEnablePeerAccess(CudaHandle context, unsigned) {
  if (current == 0) return kInvalidContext;
  const auto other = static_cast<int>(reinterpret_cast<uintptr_t>(context)) - 1;
  const Lock lock(driver().mutex);
  const int own = static_cast<int>(current) - 1;
  if (!areLinked(own, other)) return kPeerAccessUnsupported;
  return driver().peers.emplace(own, other).second ? kSuccess
                                                   : kvferry::cuda::kPeerAccessAlreadyEnabled;
}
FAKE_EXPORT int cuDeviceGetP2PAttribute(int* value, int, int, int) {
  *value = 1;
  return kSuccess;
}
FAKE_EXPORT int cuDevicePrimaryCtxRetain(CudaHandle* context, int device) {
  *context = reinterpret_cast<CudaHandle>(static_cast<uintptr_t>(device) + 1);
  return kSuccess;
}
FAKE_EXPORT int cuCtxSetCurrent(CudaHandle context) {
  current = reinterpret_cast<uintptr_t>(context);
  return kSuccess;
}

FAKE_EXPORT int cuMemcpyAsync(CudaPointer to, CudaPointer from, size_t bytes, CudaHandle stream) {
  const Lock lock(driver().mutex);
  streamOf(stream)->push([=] {
    std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
  });
  return kSuccess;
}
FAKE_EXPORT int cuMemsetD8Async(CudaPointer to, unsigned char value, size_t bytes, CudaHandle stream) {
  const Lock lock(driver().mutex);
  streamOf(stream)->push([=] { std::memset(reinterpret_cast<void*>(to), value, bytes); });
  return kSuccess;
}

FAKE_EXPORT int cuModuleLoadData(CudaHandle* module, const void* image) {
  *module = const_cast<void*>(image);
  return std::strstr(static_cast<const char*>(image), ".version") != nullptr ? kSuccess
                                                                             : kInvalidValue;
}
FAKE_EXPORT int cuModuleGetFunction(CudaHandle* function, CudaHandle module, const char* name) {
  const Kernel* kernel = findKernel(name);
  const std::string entry = std::string(".entry ") + name;
  const bool isThere = std::strstr(static_cast<const char*>(module), entry.c_str()) != nullptr;
  if (kernel == nullptr || !isThere) return kNotFound;
  *function = const_cast<Kernel*>(kernel);
  return kSuccess;
}
FAKE_EXPORT int cuLaunchKernel(CudaHandle function, unsigned blocks, unsigned, unsigned,
                               unsigned threads, unsigned, unsigned, unsigned, CudaHandle stream,
                               void** parameters, void**) {
  if (blocks > setting("KVFERRY_FAKE_CUDA_BLOCKS_MAX", 65'535)) return kInvalidValue;
  const Lock lock(driver().mutex);
  const auto* kernel = static_cast<const Kernel*>(function);
  const auto* first = static_cast<const uint8_t*>(parameters[0]);
  // A launch takes its arguments at once.
  std::vector<uint8_t> arguments(first, first + kernel->argumentBytes);
  streamOf(stream)->push([=, taken = std::move(arguments)] {
    runGrid(*kernel, taken.data(), blocks, threads);
  });
  return kSuccess;
}
