// The fake driver: memory of the GPUs, of its kinds, and what other processes can see of it.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

#include "fake_state.h"

using namespace fakecuda;

namespace {

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
  int32_t device;
};
static_assert(sizeof(IpcContent) <= sizeof(CudaIpcHandle));

}  // namespace

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

FAKE_EXPORT int cuIpcGetMemHandle(CudaIpcHandle* handle, CudaPointer pointer) {
  const Lock lock(driver().mutex);
  const auto found = rangeOf(pointer);
  if (found == driver().ranges.end() || found->second.kind != Kind::kPlain) return kInvalidValue;
  const IpcContent content{getpid(), found->second.file, found->second.bytes,
                           found->second.device};
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
  if (!areLinked(static_cast<int>(current) - 1, content.device)) return kPeerAccessUnsupported;
  const std::string path =
      "/proc/" + std::to_string(content.pid) + "/fd/" + std::to_string(content.file);
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  struct stat name;
  if (file < 0 || fstat(file, &name) != 0) return kInvalidHandle;
  const auto known = driver().opened.find(name.st_ino);
  if (known != driver().opened.end()) {
    close(file);
    *pointer = known->second;
    driver().ranges.at(known->second).openCount += 1;
    return kSuccess;
  }
  void* mapped = mapFile(file, content.bytes);
  close(file);
  if (mapped == nullptr) return kOutOfMemory;
  *pointer = reinterpret_cast<CudaPointer>(mapped);
  driver().ranges[*pointer] = {content.bytes, -1, Kind::kImported, static_cast<int>(current) - 1, 1};
  driver().opened[name.st_ino] = *pointer;
  return kSuccess;
}
FAKE_EXPORT int cuIpcCloseMemHandle(CudaPointer pointer) {
  const Lock lock(driver().mutex);
  const auto found = driver().ranges.find(pointer);
  if (found == driver().ranges.end() || found->second.kind != Kind::kImported) return kInvalidValue;
  if (--found->second.openCount > 0) return kSuccess;
  for (auto each = driver().opened.begin(); each != driver().opened.end();) {
    each = each->second == pointer ? driver().opened.erase(each) : std::next(each);
  }
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
