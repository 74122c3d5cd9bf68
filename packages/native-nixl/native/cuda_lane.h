// A stream of a GPU with what its work needs: pinned memory to write arguments and to read answers, room
// on the GPU for them, and an event. One user at a time; what is enqueued runs in order. The memory
// grows with use and is used again.
#pragma once

#include <cstdint>

#include "cuda_device.h"

namespace kvferry {

/** Of 32 threads each, in the blocks that `launch` makes. */
constexpr uint64_t kWarpsPerBlock = 8;

class CudaLane {
 public:
  explicit CudaLane(const CudaDevice& device) noexcept : device_(device) {}
  ~CudaLane();
  CudaLane(const CudaLane&) = delete;
  CudaLane& operator=(const CudaLane&) = delete;

  /** Once, in the context. */
  Result start();

  /** `sizeBytes` of pinned memory and as many on the GPU. Nothing that uses the former may be running. */
  Result reserve(uint64_t sizeBytes);
  uint64_t sizeBytes() const noexcept { return sizeBytes_; }
  uint8_t* host() const noexcept { return host_; }
  CudaPointer onDevice() const noexcept { return onDevice_; }

  /** From `host()` to `onDevice()`, or back: this part of them. */
  Result upload(uint64_t offset, uint64_t sizeBytes);
  Result download(uint64_t offset, uint64_t sizeBytes);
  /** Between any two places that the driver knows; host memory should be pinned, or this waits. */
  Result copy(CudaPointer to, CudaPointer from, uint64_t sizeBytes);
  Result clear(CudaPointer at, uint64_t sizeBytes);
  /** `arguments`: the kernel's only parameter, which is copied. Blocks of 256 threads. */
  Result launch(CudaHandle function, uint64_t blocks, void* arguments);

  /** What is enqueued from here on runs after what the other has marked. */
  Result waitFor(const CudaLane& other);

  /** Blocks until all is done. */
  Result finish();
  /** Marks what was enqueued so far; `isDone` then tells about that. */
  Result mark();
  Result isDone(bool* done) const;

 private:
  const CudaDevice& device_;
  CudaHandle stream_ = nullptr;
  CudaHandle event_ = nullptr;
  uint8_t* host_ = nullptr;
  CudaPointer onDevice_ = 0;
  uint64_t sizeBytes_ = 0;
};

}  // namespace kvferry
