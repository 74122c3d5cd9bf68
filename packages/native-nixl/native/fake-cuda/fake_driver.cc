// A driver without a GPU, for tests: the functions of cuda_api.h over memory of the host. Memory of "the GPU" lies in
// memfds, so that other processes can map it by handle as they map a GPU's. It is as treacherous as a
// driver: what is enqueued runs only when somebody waits or asks (so that a missing wait is seen), a
// process can't open its own handles, imported memory has no handle, and every call needs a context.
//
// KVFERRY_FAKE_CUDA_DEVICES: how many GPUs there are (default 2).
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "../cuda_api.h"
#include "fake_kernels.h"

#define FAKE_EXPORT extern "C" __attribute__((visibility("default")))

using namespace fakecuda;
using kvferry::CudaAccess;
using kvferry::CudaAllocationProperties;
using kvferry::CudaHandle;
using kvferry::CudaIpcHandle;
using kvferry::CudaPointer;

namespace {

constexpr int kSuccess = 0;
constexpr int kInvalidValue = 1;
constexpr int kOutOfMemory = 2;
constexpr int kNoDevice = 100;
constexpr int kInvalidDevice = 101;
constexpr int kInvalidContext = 201;
constexpr int kInvalidHandle = 400;
constexpr int kNotFound = 500;
constexpr int kNotReady = 600;
constexpr uint64_t kUnit = uint64_t{2} << 20;

enum class Kind { kPlain, kImported, kVirtual };

struct Range {
  uint64_t bytes = 0;
  int file = -1;
  Kind kind = Kind::kPlain;
  int device = 0;
};

struct Stream {
  std::deque<std::function<void()>> work;
  uint64_t enqueued = 0;
  uint64_t done = 0;

  void push(std::function<void()> step) {
    work.push_back(std::move(step));
    enqueued += 1;
  }
  bool step() {
    if (work.empty()) return false;
    work.front()();
    work.pop_front();
    done += 1;
    return true;
  }
};

struct Event {
  Stream* stream = nullptr;
  uint64_t after = 0;
};

struct Virtual {
  int file = -1;
  uint64_t bytes = 0;
};

struct Driver {
  std::recursive_mutex mutex;
  std::map<uint64_t, Range> ranges;
  std::map<uint64_t, Virtual> virtuals;
  std::map<uint64_t, uint64_t> reserved;
  std::map<void*, size_t> registered;
  uint64_t nextVirtual = 1;
};

/** Never destroyed: threads may outlive the exit handlers. */
Driver& driver() {
  static auto* one = new Driver;
  return *one;
}

using Lock = std::lock_guard<std::recursive_mutex>;
thread_local uintptr_t current = 0;

int deviceCount() {
  const char* count = std::getenv("KVFERRY_FAKE_CUDA_DEVICES");
  return count == nullptr ? 2 : std::atoi(count);
}

bool isDevice(int device) { return device >= 0 && device < deviceCount(); }

/** The range that an address lies in, or end(). */
std::map<uint64_t, Range>::iterator rangeOf(CudaPointer pointer) {
  auto& ranges = driver().ranges;
  auto found = ranges.upper_bound(pointer);
  if (found == ranges.begin()) return ranges.end();
  --found;
  return pointer < found->first + found->second.bytes ? found : ranges.end();
}

void* mapFile(int file, uint64_t bytes, void* at = nullptr) {
  // Aligned as a GPU's memory is.
  if (at == nullptr) {
    auto* const wide = static_cast<uint8_t*>(
        mmap(nullptr, bytes + kUnit, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    if (wide == MAP_FAILED) return nullptr;
    const auto start = reinterpret_cast<uint64_t>(wide);
    const uint64_t aligned = (start + kUnit - 1) / kUnit * kUnit;
    at = reinterpret_cast<void*>(aligned);
    if (aligned > start) munmap(wide, aligned - start);
    munmap(reinterpret_cast<void*>(aligned + bytes), start + kUnit - aligned);
  }
  void* mapped = mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0);
  return mapped == MAP_FAILED ? nullptr : mapped;
}

int makeFile(uint64_t bytes) {
  if (bytes > uint64_t{1} << 40) return -1;
  const int file = memfd_create("kvferry-fake-gpu", MFD_CLOEXEC);
  if (file >= 0 && ftruncate(file, static_cast<off_t>(bytes)) != 0) {
    close(file);
    return -1;
  }
  return file;
}

struct IpcContent {
  int32_t pid;
  int32_t file;
  uint64_t bytes;
};
static_assert(sizeof(IpcContent) <= sizeof(CudaIpcHandle));

}  // namespace

FAKE_EXPORT int cuInit(unsigned) { return deviceCount() > 0 ? kSuccess : kNoDevice; }
FAKE_EXPORT int cuDriverGetVersion(int* version) {
  *version = 13'000;
  return kSuccess;
}
FAKE_EXPORT int cuGetErrorName(int status, const char** name) {
  static const std::map<int, const char*> names{
      {kInvalidValue, "CUDA_ERROR_INVALID_VALUE"},     {kInvalidDevice, "CUDA_ERROR_INVALID_DEVICE"},
      {kInvalidContext, "CUDA_ERROR_INVALID_CONTEXT"}, {kInvalidHandle, "CUDA_ERROR_INVALID_HANDLE"},
      {kNotFound, "CUDA_ERROR_NOT_FOUND"}};
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
  *can = from != to ? 1 : 0;
  return kSuccess;
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
FAKE_EXPORT int cuMemAlloc_v2(CudaPointer* pointer, size_t bytes) {
  if (current == 0) return kInvalidContext;
  const Lock lock(driver().mutex);
  const int file = makeFile(bytes);
  void* mapped = file >= 0 ? mapFile(file, bytes) : nullptr;
  if (mapped == nullptr) return kOutOfMemory;
  // What was there before stays: nobody may count on zeros.
  std::memset(mapped, 0xA5, bytes < kUnit ? bytes : kUnit);
  *pointer = reinterpret_cast<CudaPointer>(mapped);
  driver().ranges[*pointer] = {bytes, file, Kind::kPlain, static_cast<int>(current) - 1};
  return kSuccess;
}
FAKE_EXPORT int cuMemFree_v2(CudaPointer pointer) {
  const Lock lock(driver().mutex);
  const auto found = driver().ranges.find(pointer);
  if (found == driver().ranges.end() || found->second.kind != Kind::kPlain) return kInvalidValue;
  munmap(reinterpret_cast<void*>(pointer), found->second.bytes);
  close(found->second.file);
  driver().ranges.erase(found);
  return kSuccess;
}
FAKE_EXPORT int cuMemGetAddressRange_v2(CudaPointer* base, size_t* bytes, CudaPointer pointer) {
  const Lock lock(driver().mutex);
  const auto found = rangeOf(pointer);
  if (found == driver().ranges.end()) return kNotFound;
  *base = found->first;
  *bytes = found->second.bytes;
  return kSuccess;
}
FAKE_EXPORT int cuPointerGetAttribute(void* value, int attribute, CudaPointer pointer) {
  const Lock lock(driver().mutex);
  const auto found = rangeOf(pointer);
  if (found == driver().ranges.end()) return kInvalidValue;
  const bool isCapable = found->second.kind == Kind::kPlain;
  *static_cast<int*>(value) =
      attribute == kvferry::cuda::kPointerDeviceOrdinal ? found->second.device : isCapable;
  return kSuccess;
}
FAKE_EXPORT int cuMemHostAlloc(void** host, size_t bytes, unsigned) {
  if (current == 0) return kInvalidContext;
  *host = std::aligned_alloc(4'096, (bytes + 4'095) / 4'096 * 4'096);
  return *host != nullptr ? kSuccess : kOutOfMemory;
}
FAKE_EXPORT int cuMemFreeHost(void* host) {
  std::free(host);
  return kSuccess;
}
FAKE_EXPORT int cuMemHostRegister_v2(void* host, size_t bytes, unsigned) {
  const Lock lock(driver().mutex);
  return driver().registered.emplace(host, bytes).second ? kSuccess
                                                         : kvferry::cuda::kHostMemoryAlreadyRegistered;
}
FAKE_EXPORT int cuMemHostUnregister(void* host) {
  const Lock lock(driver().mutex);
  return driver().registered.erase(host) > 0 ? kSuccess : kInvalidValue;
}

FAKE_EXPORT int cuStreamCreate(CudaHandle* stream, unsigned) {
  if (current == 0) return kInvalidContext;
  *stream = new Stream;
  return kSuccess;
}
FAKE_EXPORT int cuStreamSynchronize(CudaHandle stream) {
  const Lock lock(driver().mutex);
  while (static_cast<Stream*>(stream)->step()) continue;
  return kSuccess;
}
FAKE_EXPORT int cuEventCreate(CudaHandle* event, unsigned) {
  *event = new Event;
  return kSuccess;
}
FAKE_EXPORT int cuEventRecord(CudaHandle event, CudaHandle stream) {
  const Lock lock(driver().mutex);
  auto* const each = static_cast<Event*>(event);
  each->stream = static_cast<Stream*>(stream);
  each->after = each->stream->enqueued;
  return kSuccess;
}
/** Each question lets one thing happen. */
FAKE_EXPORT int cuEventQuery(CudaHandle event) {
  const Lock lock(driver().mutex);
  auto* const each = static_cast<Event*>(event);
  if (each->stream == nullptr || each->stream->done >= each->after) return kSuccess;
  each->stream->step();
  return kNotReady;
}
FAKE_EXPORT int cuMemcpyAsync(CudaPointer to, CudaPointer from, size_t bytes, CudaHandle stream) {
  const Lock lock(driver().mutex);
  static_cast<Stream*>(stream)->push([=] {
    std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
  });
  return kSuccess;
}
FAKE_EXPORT int cuMemsetD8Async(CudaPointer to, unsigned char value, size_t bytes, CudaHandle stream) {
  const Lock lock(driver().mutex);
  static_cast<Stream*>(stream)->push([=] { std::memset(reinterpret_cast<void*>(to), value, bytes); });
  return kSuccess;
}

FAKE_EXPORT int cuIpcGetMemHandle(CudaIpcHandle* handle, CudaPointer pointer) {
  const Lock lock(driver().mutex);
  const auto found = rangeOf(pointer);
  if (found == driver().ranges.end() || found->second.kind != Kind::kPlain) return kInvalidValue;
  const IpcContent content{getpid(), found->second.file, found->second.bytes};
  std::memset(handle, 0, sizeof *handle);
  std::memcpy(handle, &content, sizeof content);
  return kSuccess;
}
FAKE_EXPORT int cuIpcOpenMemHandle_v2(CudaPointer* pointer, CudaIpcHandle handle, unsigned) {
  if (current == 0) return kInvalidContext;
  IpcContent content;
  std::memcpy(&content, &handle, sizeof content);
  if (content.pid == getpid()) return kInvalidContext;
  const Lock lock(driver().mutex);
  const std::string path =
      "/proc/" + std::to_string(content.pid) + "/fd/" + std::to_string(content.file);
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return kInvalidHandle;
  void* mapped = mapFile(file, content.bytes);
  close(file);
  if (mapped == nullptr) return kOutOfMemory;
  *pointer = reinterpret_cast<CudaPointer>(mapped);
  driver().ranges[*pointer] = {content.bytes, -1, Kind::kImported, static_cast<int>(current) - 1};
  return kSuccess;
}
FAKE_EXPORT int cuIpcCloseMemHandle(CudaPointer pointer) {
  const Lock lock(driver().mutex);
  const auto found = driver().ranges.find(pointer);
  if (found == driver().ranges.end() || found->second.kind != Kind::kImported) return kInvalidValue;
  munmap(reinterpret_cast<void*>(pointer), found->second.bytes);
  driver().ranges.erase(found);
  return kSuccess;
}

FAKE_EXPORT int cuMemGetAllocationGranularity(size_t* unit, const CudaAllocationProperties*, int) {
  *unit = kUnit;
  return kSuccess;
}
FAKE_EXPORT int cuMemCreate(uint64_t* handle, size_t bytes, const CudaAllocationProperties*, uint64_t) {
  const Lock lock(driver().mutex);
  const int file = makeFile(bytes);
  if (file < 0) return kOutOfMemory;
  *handle = driver().nextVirtual++;
  driver().virtuals[*handle] = {file, bytes};
  return kSuccess;
}
FAKE_EXPORT int cuMemRelease(uint64_t handle) {
  const Lock lock(driver().mutex);
  const auto found = driver().virtuals.find(handle);
  if (found == driver().virtuals.end()) return kInvalidValue;
  close(found->second.file);
  driver().virtuals.erase(found);
  return kSuccess;
}
FAKE_EXPORT int cuMemExportToShareableHandle(void* descriptor, uint64_t handle, int, uint64_t) {
  const Lock lock(driver().mutex);
  const auto found = driver().virtuals.find(handle);
  if (found == driver().virtuals.end()) return kInvalidValue;
  const int copy = fcntl(found->second.file, F_DUPFD_CLOEXEC, 3);
  std::memcpy(descriptor, &copy, sizeof copy);
  return copy >= 0 ? kSuccess : kInvalidValue;
}
FAKE_EXPORT int cuMemImportFromShareableHandle(uint64_t* handle, void* descriptor, int) {
  const Lock lock(driver().mutex);
  const int file =
      fcntl(static_cast<int>(reinterpret_cast<uintptr_t>(descriptor)), F_DUPFD_CLOEXEC, 3);
  if (file < 0) return kInvalidHandle;
  *handle = driver().nextVirtual++;
  driver().virtuals[*handle] = {file, static_cast<uint64_t>(lseek(file, 0, SEEK_END))};
  return kSuccess;
}
FAKE_EXPORT int cuMemAddressReserve(CudaPointer* pointer, size_t bytes, size_t, CudaPointer, uint64_t) {
  const Lock lock(driver().mutex);
  const int file = makeFile(bytes);
  void* mapped = file >= 0 ? mapFile(file, bytes) : nullptr;
  if (file >= 0) close(file);
  if (mapped == nullptr) return kOutOfMemory;
  *pointer = reinterpret_cast<CudaPointer>(mapped);
  driver().reserved[*pointer] = bytes;
  return kSuccess;
}
FAKE_EXPORT int cuMemAddressFree(CudaPointer pointer, size_t bytes) {
  const Lock lock(driver().mutex);
  if (driver().reserved.erase(pointer) == 0) return kInvalidValue;
  munmap(reinterpret_cast<void*>(pointer), bytes);
  return kSuccess;
}
FAKE_EXPORT int cuMemMap(CudaPointer pointer, size_t bytes, size_t, uint64_t handle, uint64_t) {
  const Lock lock(driver().mutex);
  const auto found = driver().virtuals.find(handle);
  const bool isFitting = found != driver().virtuals.end() && bytes <= found->second.bytes &&
                         driver().reserved.count(pointer) > 0;
  if (!isFitting) return kInvalidValue;
  if (mapFile(found->second.file, bytes, reinterpret_cast<void*>(pointer)) == nullptr) {
    return kOutOfMemory;
  }
  driver().ranges[pointer] = {bytes, -1, Kind::kVirtual, static_cast<int>(current) - 1};
  return kSuccess;
}
FAKE_EXPORT int cuMemUnmap(CudaPointer pointer, size_t) {
  const Lock lock(driver().mutex);
  return driver().ranges.erase(pointer) > 0 ? kSuccess : kInvalidValue;
}
FAKE_EXPORT int cuMemSetAccess(CudaPointer, size_t, const CudaAccess*, size_t) { return kSuccess; }

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
  const Lock lock(driver().mutex);
  const auto* kernel = static_cast<const Kernel*>(function);
  const auto* first = static_cast<const uint8_t*>(parameters[0]);
  // A launch takes its arguments at once.
  std::vector<uint8_t> arguments(first, first + kernel->argumentBytes);
  static_cast<Stream*>(stream)->push([=, taken = std::move(arguments)] {
    runGrid(*kernel, taken.data(), blocks, threads);
  });
  return kSuccess;
}
