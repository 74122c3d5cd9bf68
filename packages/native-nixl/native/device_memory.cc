#include "device_memory.h"

#include <cstring>
#include <utility>

#include "cuda_lane.h"
#include "limits.h"

namespace kvferry {
namespace {

constexpr uint64_t kAllocationBytes = uint64_t{2} << 20;
/** "KVGM" in the order of the bytes, and the version of the handle's form. */
constexpr uint64_t kHandleMagic = 0x1'4D47564B;

/** A failed allocation, with the size that was asked for. */
Result withSize(Result result, uint64_t sizeBytes) {
  if (result.status == Status::kLimit) result.value = sizeBytes;
  return result;
}

CudaAllocationProperties virtualProperties(const CudaDevice& device) {
  CudaAllocationProperties properties = {};
  properties.type = cuda::kAllocationPinned;
  properties.handleTypes = cuda::kHandlePosixDescriptor;
  properties.location = {cuda::kLocationDevice, device.ordinal()};
  return properties;
}

/** Mapped in pages of this size. */
Result granularity(const CudaDevice& device, uint64_t* bytes) {
  const CudaApi& api = device.api();
  const CudaAllocationProperties properties = virtualProperties(device);
  size_t unit = 0;
  Result result = api.check(
      api.virtualGranularity(&unit, &properties, cuda::kGranularityRecommended), "granularity");
  *bytes = unit;
  return result;
}

/** Zeroes new memory and waits for it: what another process left there is nobody's to see. */
Result clearNow(CudaDevice& device, CudaPointer pointer, uint64_t sizeBytes) {
  std::unique_ptr<CudaLane> lane;
  Result result = device.takeLane(&lane);
  if (result.ok()) result = lane->clear(pointer, sizeBytes);
  if (result.ok()) result = lane->finish();
  if (result.ok()) device.give(std::move(lane));
  return result;
}

Result unsupported(const char* what, const char* why) {
  return Result::failure(Status::kUnsupported, what, why);
}

}  // namespace

DeviceMemory::DeviceMemory(std::shared_ptr<CudaDevice> device, Origin origin, CudaPointer mapping,
                           uint64_t mappedBytes, uint64_t offset, uint64_t sizeBytes,
                           uint64_t handle)
    : Memory(MemoryKind::kDevice, mapping + offset, sizeBytes),
      device_(std::move(device)),
      origin_(origin),
      mapping_(mapping),
      mappedBytes_(mappedBytes),
      handle_(handle) {
  isTarget_ = askIsTarget();
}

DeviceMemory::~DeviceMemory() { releaseOnce(); }

bool DeviceMemory::askIsTarget() const {
  const CudaApi& api = device_->api();
  int isCapable = 0;
  CudaIpcHandle handle;
  return api.pointerAttribute(&isCapable, cuda::kPointerIsLegacyIpcCapable, mapping_) ==
             cuda::kSuccess &&
         isCapable == 1 && api.ipcExport(&handle, mapping_) == cuda::kSuccess;
}

Result DeviceMemory::allocate(const std::shared_ptr<CudaDevice>& device, uint64_t sizeBytes,
                              std::shared_ptr<DeviceMemory>* memory) {
  Result result = checkMemorySize(sizeBytes);
  if (result.ok()) result = device->enter();
  if (!result.ok()) return result;
  const CudaApi& api = device->api();
  const uint64_t mapped = roundUp(sizeBytes, kAllocationBytes);
  CudaPointer pointer = 0;
  result = withSize(api.check(api.memoryAllocate(&pointer, mapped), "memoryAllocate"), sizeBytes);
  if (!result.ok()) return result;
  std::shared_ptr<DeviceMemory> made(
      new DeviceMemory(device, Origin::kAllocated, pointer, mapped, 0, sizeBytes, 0));
  result = clearNow(*device, pointer, mapped);
  if (!result.ok()) return result;
  *memory = std::move(made);
  return result;
}

Result DeviceMemory::allocateVirtual(const std::shared_ptr<CudaDevice>& device, uint64_t sizeBytes,
                                     std::shared_ptr<DeviceMemory>* memory) {
  uint64_t unit = 0;
  Result result = checkMemorySize(sizeBytes);
  if (result.ok()) result = device->enter();
  if (result.ok()) result = granularity(*device, &unit);
  if (!result.ok()) return result;
  const CudaApi& api = device->api();
  const CudaAllocationProperties properties = virtualProperties(*device);
  const uint64_t mapped = roundUp(sizeBytes, unit);
  uint64_t handle = 0;
  result = withSize(api.check(api.virtualCreate(&handle, mapped, &properties, 0), "virtualCreate"),
                    sizeBytes);
  if (result.ok()) result = mapVirtual(device, handle, mapped, sizeBytes, memory);
  if (!result.ok()) return result;
  return clearNow(*device, (*memory)->mapping_, mapped);
}

Result DeviceMemory::mapVirtual(const std::shared_ptr<CudaDevice>& device, uint64_t handle,
                                uint64_t mappedBytes, uint64_t sizeBytes,
                                std::shared_ptr<DeviceMemory>* memory) {
  const CudaApi& api = device->api();
  CudaPointer at = 0;
  Result result =
      api.check(api.virtualReserve(&at, mappedBytes, kAllocationBytes, 0, 0), "virtualReserve");
  if (!result.ok()) {
    api.virtualRelease(handle);
    return result;
  }
  result = api.check(api.virtualMap(at, mappedBytes, 0, handle, 0), "virtualMap");
  const CudaAccess access{{cuda::kLocationDevice, device->ordinal()}, cuda::kAccessReadWrite};
  if (result.ok()) {
    result = api.check(api.virtualAccess(at, mappedBytes, &access, 1), "virtualAccess");
    if (!result.ok()) api.virtualUnmap(at, mappedBytes);
  }
  if (!result.ok()) {
    api.virtualUnreserve(at, mappedBytes);
    api.virtualRelease(handle);
    return result;
  }
  memory->reset(new DeviceMemory(device, Origin::kVirtual, at, mappedBytes, 0, sizeBytes, handle));
  return result;
}

Result DeviceMemory::importHandle(const std::shared_ptr<CudaDevice>& device, const uint8_t* bytes,
                                  size_t sizeBytes, std::shared_ptr<DeviceMemory>* memory) {
  uint64_t words[3] = {};
  CudaIpcHandle handle;
  if (sizeBytes == kDeviceHandleBytes) std::memcpy(words, bytes, sizeof words);
  if (words[0] != kHandleMagic || !checkMemorySize(words[2]).ok()) {
    return Result::failure(Status::kMessageInvalid, "importHandle", "it names no memory of a GPU");
  }
  std::memcpy(handle.bytes, bytes + sizeof words, sizeof handle.bytes);
  Result result = device->enter();
  if (!result.ok()) return result;
  const CudaApi& api = device->api();
  CudaPointer mapping = 0;
  result = api.check(api.ipcOpen(&mapping, handle, cuda::kIpcLazyPeerAccess), "ipcOpen");
  if (!result.ok()) return result;
  CudaPointer base = 0;
  size_t length = 0;
  uint64_t end = 0;
  result = api.check(api.memoryRange(&base, &length, mapping), "memoryRange");
  if (result.ok() && (__builtin_add_overflow(words[1], words[2], &end) || end > length)) {
    result = Result::failure(Status::kMessageInvalid, "importHandle", "it reaches beyond its memory");
  }
  if (!result.ok()) {
    api.ipcClose(mapping);
    return result;
  }
  memory->reset(new DeviceMemory(device, Origin::kImported, mapping, length, words[1], words[2], 0));
  return result;
}

Result DeviceMemory::importDescriptor(const std::shared_ptr<CudaDevice>& device, int descriptor,
                                      uint64_t sizeBytes, std::shared_ptr<DeviceMemory>* memory) {
  uint64_t unit = 0;
  Result result = checkMemorySize(sizeBytes);
  if (result.ok()) result = device->enter();
  if (result.ok()) result = granularity(*device, &unit);
  if (!result.ok()) return result;
  const CudaApi& api = device->api();
  uint64_t handle = 0;
  auto* const number = reinterpret_cast<void*>(static_cast<uintptr_t>(descriptor));
  result = api.check(api.virtualImport(&handle, number, cuda::kHandlePosixDescriptor),
                     "virtualImport");
  if (!result.ok()) return result;
  return mapVirtual(device, handle, roundUp(sizeBytes, unit), sizeBytes, memory);
}

void DeviceMemory::release() noexcept {
  if (!device_->enter().ok()) return;
  const CudaApi& api = device_->api();
  switch (origin_) {
    case Origin::kAllocated:
      api.memoryFree(mapping_);
      break;
    case Origin::kImported:
      api.ipcClose(mapping_);
      break;
    case Origin::kVirtual:
      api.virtualUnmap(mapping_, mappedBytes_);
      api.virtualUnreserve(mapping_, mappedBytes_);
      api.virtualRelease(handle_);
      break;
  }
}

Result DeviceMemory::exportHandle(DeviceHandle* exported) const {
  if (!isTarget_) {
    return unsupported("exportHandle", "imported and virtual GPU memory has no handle");
  }
  Result result = device_->enter();
  if (!result.ok()) return result;
  const CudaApi& api = device_->api();
  CudaIpcHandle handle;
  result = api.check(api.ipcExport(&handle, mapping_), "ipcExport");
  const uint64_t words[3] = {kHandleMagic, address() - mapping_, sizeBytes()};
  std::memcpy(exported->data(), words, sizeof words);
  std::memcpy(exported->data() + sizeof words, handle.bytes, sizeof handle.bytes);
  return result;
}

Result DeviceMemory::exportDescriptor(int* descriptor) const {
  if (origin_ != Origin::kVirtual) {
    return unsupported("exportDescriptor", "only virtual GPU memory has a descriptor");
  }
  Result result = device_->enter();
  if (!result.ok()) return result;
  const CudaApi& api = device_->api();
  return api.check(api.virtualExport(descriptor, handle_, cuda::kHandlePosixDescriptor, 0),
                   "virtualExport");
}

Result DeviceMemory::read(uint64_t offset, uint8_t* to, uint64_t sizeBytes) {
  return move(offset, reinterpret_cast<uint64_t>(to), sizeBytes, true);
}

Result DeviceMemory::write(uint64_t offset, const uint8_t* from, uint64_t sizeBytes) {
  return move(offset, reinterpret_cast<uint64_t>(from), sizeBytes, false);
}

Result DeviceMemory::move(uint64_t offset, uint64_t host, uint64_t bytes, bool isRead) {
  uint64_t end = 0;
  if (__builtin_add_overflow(offset, bytes, &end) || end > sizeBytes()) {
    return Result::outOfRange("copy", "it reaches beyond the memory");
  }
  // Freed by the same thread only, so it stays for the length of the call.
  if (isFreed()) return Result::failure(Status::kClosed, "copy", "the memory was freed");
  Result result = device_->enter();
  if (!result.ok() || bytes == 0) return result;
  std::unique_ptr<CudaLane> lane;
  result = device_->takeLane(&lane);
  const CudaPointer here = address() + offset;
  if (result.ok()) result = lane->copy(isRead ? host : here, isRead ? here : host, bytes);
  if (result.ok()) result = lane->finish();
  if (result.ok()) device_->give(std::move(lane));
  return result;
}

}  // namespace kvferry
