// Memory of a GPU: allocated here, or another process's, imported by a handle. Peers can reach through
// the library only what was allocated plainly: UCX exports nothing else, and for the rest would fall
// back to software, a thousand times slower and without a word. Any thread.
#pragma once

#include <array>
#include <memory>

#include "cuda_device.h"
#include "memory.h"

namespace kvferry {

/** Names an allocation to other processes of the machine; the bytes of `DeviceMemory::exportHandle`. */
inline constexpr size_t kDeviceHandleBytes = 64 + 3 * 8;
using DeviceHandle = std::array<uint8_t, kDeviceHandleBytes>;

class DeviceMemory final : public Memory {
 public:
  /**
   * Zeroed, rounded up to 2 MiB, so that it shares no allocation: a handle opens a whole one.
   * kLimit: `memorySizeBytes`.
   */
  static Result allocate(const std::shared_ptr<CudaDevice>& device, uint64_t sizeBytes,
                         std::shared_ptr<DeviceMemory>* memory);
  /** As `allocate`, of the kind that descriptors name (`exportDescriptor`): what engines that can sleep use. */
  static Result allocateVirtual(const std::shared_ptr<CudaDevice>& device, uint64_t sizeBytes,
                                std::shared_ptr<DeviceMemory>* memory);
  /**
   * What `exportHandle` of another process names. It stays mapped here after its owner freed it or ended.
   * kMessageInvalid: no such handle; kCuda: the driver refuses it, also in the process that made it.
   */
  static Result importHandle(const std::shared_ptr<CudaDevice>& device, const uint8_t* bytes,
                             size_t sizeBytes, std::shared_ptr<DeviceMemory>* memory);
  /** The caller keeps `descriptor`. */
  static Result importDescriptor(const std::shared_ptr<CudaDevice>& device, int descriptor,
                                 uint64_t sizeBytes, std::shared_ptr<DeviceMemory>* memory);

  ~DeviceMemory() override;

  CudaDevice* device() const noexcept override { return device_.get(); }
  MemoryPlace place() const noexcept override {
    return {MemoryKind::kDevice, static_cast<uint32_t>(device_->ordinal())};
  }
  bool isTarget() const noexcept override { return isTarget_; }

  /** kUnsupported for what is no target. */
  Result exportHandle(DeviceHandle* handle) const;
  /** A descriptor that the caller closes; kUnsupported unless `allocateVirtual` made it. */
  Result exportDescriptor(int* descriptor) const;

  /** Blocking copies, for tests and tools. kOutOfRange; kClosed. */
  Result read(uint64_t offset, uint8_t* to, uint64_t sizeBytes);
  Result write(uint64_t offset, const uint8_t* from, uint64_t sizeBytes);

 private:
  enum class Origin : uint8_t { kAllocated, kImported, kVirtual };
  DeviceMemory(std::shared_ptr<CudaDevice> device, Origin origin, CudaPointer mapping,
               uint64_t mappedBytes, uint64_t offset, uint64_t sizeBytes, uint64_t handle);
  static Result mapVirtual(const std::shared_ptr<CudaDevice>& device, uint64_t handle,
                           uint64_t mappedBytes, uint64_t sizeBytes,
                           std::shared_ptr<DeviceMemory>* memory);
  void release() noexcept override;
  Result move(uint64_t offset, uint64_t host, uint64_t sizeBytes, bool isRead);
  bool askIsTarget() const;

  const std::shared_ptr<CudaDevice> device_;
  const Origin origin_;
  /** Where the driver's mapping starts; ours may start later. */
  const CudaPointer mapping_;
  const uint64_t mappedBytes_;
  const uint64_t handle_;
  bool isTarget_ = false;
};

}  // namespace kvferry
