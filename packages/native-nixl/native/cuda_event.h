// A mark in a stream of a GPU: done when the GPU has done all that was enqueued there before it. Made here,
// another process's (an engine's, by its handle), or one that somebody else in this process owns. The
// driver calls an event done that nobody ever recorded, so of ours it is remembered; others must have been
// recorded before they are handed over. Any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "cuda_device.h"

namespace kvferry {

/** As the driver makes it, so that engines can make it too. */
using CudaEventHandle = std::array<uint8_t, sizeof(CudaIpcHandle)>;

class CudaEvent {
 public:
  static Result create(const std::shared_ptr<CudaDevice>& device, std::shared_ptr<CudaEvent>* event);
  /** kMessageInvalid: its size; kCuda: the driver refuses it, also in the process that made it. */
  static Result importHandle(const std::shared_ptr<CudaDevice>& device, const uint8_t* bytes,
                             size_t sizeBytes, std::shared_ptr<CudaEvent>* event);
  /** `address`: the driver's own pointer to it. Its owner keeps it until nothing waits for it. */
  static Result borrow(const std::shared_ptr<CudaDevice>& device, uint64_t address,
                       std::shared_ptr<CudaEvent>* event);
  ~CudaEvent();
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;

  const CudaDevice& device() const noexcept { return *device_; }
  bool wasRecorded() const noexcept { return wasRecorded_.load(); }

  /** Behind what is in this stream now; 0 is the context's own. Until then it means what it meant before. */
  Result record(uint64_t stream);
  /** Never waits. kCuda: the GPU failed, and what the event stood for may not have happened. */
  Result isDone(bool* done) const;
  /** kUnsupported for what `create` didn't make. */
  Result exportHandle(CudaEventHandle* handle) const;

 private:
  enum class Origin : uint8_t { kCreated, kImported, kBorrowed };
  CudaEvent(std::shared_ptr<CudaDevice> device, Origin origin, CudaHandle event) noexcept;

  const std::shared_ptr<CudaDevice> device_;
  const Origin origin_;
  const CudaHandle event_;
  std::atomic<bool> wasRecorded_;
};

}  // namespace kvferry
