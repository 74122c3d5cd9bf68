// One GPU as this process uses it: its primary context (the only one that UCX copies in), our kernels,
// and lanes to run them on. Opened once per process and never closed: pinned pages, imported memory
// and other libraries live in the same context. Any thread.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cuda_api.h"

namespace kvferry {

/** In the order of their names in cuda_device.cc. */
enum class CudaKernel : uint8_t { kFill, kDigest, kCopyPieces, kPack, kMoveListed, kRelayout, kMove };
inline constexpr size_t kCudaKernelCount = 7;

class CudaLane;

class CudaDevice : public std::enable_shared_from_this<CudaDevice> {
 public:
  /** kCudaUnavailable, with what is missing; kOutOfRange: no GPU of this number; kCuda. */
  static Result open(const std::string& library, uint64_t ordinal,
                     std::shared_ptr<CudaDevice>* device);
  ~CudaDevice();
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  const CudaApi& api() const noexcept { return *api_; }
  int ordinal() const noexcept { return ordinal_; }
  int processorCount() const noexcept { return processorCount_; }

  /** Makes the context the calling thread's. Before any other call that concerns this GPU. */
  Result enter() const;
  /** Lets kernels here use memory that this process has on another of its GPUs. kUnsupported: they are not linked. */
  Result reach(int other) const;

  Result lockPages(uint8_t* data, uint64_t sizeBytes);
  void unlockPages(uint8_t* data) noexcept;

  /** A lane that nobody else uses until it is given back; `sizeBytes`: what it should have room for already. */
  Result takeLane(std::unique_ptr<CudaLane>* lane, uint64_t sizeBytes = 0);
  /** Nothing of it may be running. One that failed is destroyed instead: `give` is for sound ones. */
  void give(std::unique_ptr<CudaLane> lane);

  /** Of a kernel; loaded with the first call, which compiles them (about 0.1 s). */
  Result function(CudaKernel kernel, CudaHandle* function);

 private:
  CudaDevice(std::shared_ptr<const CudaApi> api, int ordinal) noexcept;
  Result start();
  Result loadKernels();

  const std::shared_ptr<const CudaApi> api_;
  const int ordinal_;
  CudaHandle context_ = nullptr;
  int processorCount_ = 0;
  std::mutex mutex_;
  bool isLoaded_ = false;
  CudaHandle functions_[kCudaKernelCount] = {};
  std::vector<std::unique_ptr<CudaLane>> lanes_;
};

/** What there is to know about a GPU without using it. */
struct CudaDeviceInfo {
  std::string name;
  std::string uuid;
  std::string pciBusId;
  uint64_t memoryBytes = 0;
  int computeMajor = 0;
  int computeMinor = 0;
};

/** Between two GPUs of this machine. */
struct CudaLinkInfo {
  int from = 0;
  int to = 0;
  /** The first can map the second's memory. */
  bool hasAccess = false;
  /** As over NVLink; not over PCIe. */
  bool hasNativeAtomics = false;
  /** Of the links of this machine, as the driver ranks them; 0 is the best. */
  int performanceRank = 0;
};

struct CudaInfo {
  /** As the driver says it: 13000 is CUDA 13.0. */
  int driver = 0;
  std::vector<CudaDeviceInfo> devices;
  std::vector<CudaLinkInfo> links;
};

/** Starts no context. kCudaUnavailable. */
Result readCudaInfo(const std::string& library, CudaInfo* info);

}  // namespace kvferry
