// What launches of our kernels have in common: arguments laid out in a lane's memory, and how many threads
// share which work.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "cuda/kernel_arguments.h"
#include "cuda_device.h"
#include "cuda_lane.h"
#include "kernel_task.h"

namespace kvferry {

inline constexpr uint64_t kThreadsPerBlock = kWarpsPerBlock * 32;
/** What one warp copies at a time: enough for four 16-byte loads of each thread, four times over. */
inline constexpr uint64_t kPartBytes = 8'192;

/** Arguments laid out one after the other in a lane's memory, each at a multiple of 16. */
class ArgumentList {
 public:
  template <class Element>
  uint64_t add(const std::vector<Element>& elements) {
    return put(elements.data(), elements.size() * sizeof(Element));
  }
  uint64_t addRoom(uint64_t bytes) { return put(nullptr, bytes); }

  Result upload(CudaLane& lane) const {
    Result reserved = lane.reserve(bytes_.size());
    if (!reserved.ok() || bytes_.empty()) return reserved;
    std::memcpy(lane.host(), bytes_.data(), bytes_.size());
    return lane.upload(0, bytes_.size());
  }

 private:
  uint64_t put(const void* from, uint64_t size) {
    const uint64_t at = (bytes_.size() + 15) / 16 * 16;
    bytes_.resize(at + size);
    if (from != nullptr && size > 0) std::memcpy(bytes_.data() + at, from, size);
    return at;
  }

  std::vector<uint8_t> bytes_;
};

template <class T>
T* pointerTo(const CudaLane& lane, uint64_t offset) {
  return reinterpret_cast<T*>(lane.onDevice() + offset);
}

/** Regions as the kernels know them. */
inline std::vector<kernels::DeviceRegion> deviceRegions(const std::vector<KernelRegion>& regions) {
  std::vector<kernels::DeviceRegion> list;
  for (const KernelRegion& region : regions) {
    list.push_back({region.memory->address() + region.offsetBytes, region.blockStrideBytes,
                    region.blockSizeBytes});
  }
  return list;
}

/** Threads of a GPU are many and cheap: enough blocks of them to fill it several times over. */
inline constexpr uint64_t kBlocksPerProcessor = 16;

inline uint64_t blocksFor(const CudaDevice& device, uint64_t units, uint64_t perBlock) {
  const auto most = kBlocksPerProcessor * static_cast<uint64_t>(device.processorCount());
  return std::min((units + perBlock - 1) / perBlock, most);
}

/** Blocks of threads for so many units of a warp's work. */
inline uint64_t warpBlocks(uint64_t units) { return (units + kWarpsPerBlock - 1) / kWarpsPerBlock; }

/** Units of `kvferry_pack` at most, wherever its bytes start. */
inline uint64_t packUnits(uint64_t blockBytes, uint64_t bytes) {
  const uint64_t parts = (blockBytes + kPartBytes - 1) / kPartBytes;
  return (bytes / blockBytes + 2) * std::min(parts, bytes / kPartBytes + 2);
}

/** A copying kernel: two blocks for each processor keep memory busy, and more would only take turns. */
inline Result launchWide(CudaDevice& device, CudaLane& lane, CudaKernel kernel, uint64_t blocks,
                         void* arguments) {
  CudaHandle function = nullptr;
  Result result = device.function(kernel, &function);
  if (!result.ok()) return result;
  const uint64_t most = 2 * static_cast<uint64_t>(device.processorCount());
  return lane.launch(function, std::min(blocks, most), arguments);
}

}  // namespace kvferry
