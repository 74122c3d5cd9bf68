// What transfers and kernels touch: some bytes at a fixed address, on the host or on a GPU, and who
// still needs them there. A pin keeps them: registrations and kernel jobs hold one. Any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <type_traits>

#include "status.h"

namespace kvferry {

class CudaDevice;

/** On which side of the bus memory lies. */
enum class MemoryKind : uint8_t { kHost = 0, kDevice = 1 };

/** Where memory lies, as the library wants to know it. */
struct MemoryPlace {
  MemoryKind kind = MemoryKind::kHost;
  /** Number of the GPU in its process; 0 for the host. */
  uint32_t device = 0;

  bool operator==(const MemoryPlace& other) const noexcept {
    return kind == other.kind && device == other.device;
  }
};

class Memory {
 public:
  virtual ~Memory() = default;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  MemoryKind kind() const noexcept { return kind_; }
  virtual MemoryPlace place() const noexcept { return {}; }
  bool isDevice() const noexcept { return kind_ == MemoryKind::kDevice; }
  uint64_t sizeBytes() const noexcept { return sizeBytes_; }
  /** Of the host, or of the GPU; stable until freed. */
  uint64_t address() const noexcept { return address_; }
  /** Host memory only; dereference while pinned, or on the thread that frees. */
  uint8_t* data() const noexcept { return reinterpret_cast<uint8_t*>(address_); }
  /** Whose kernels can reach it: the GPU that it lies on, or that it is pinned for; often null. */
  virtual CudaDevice* device() const noexcept { return nullptr; }
  /** Peers can reach it through the library: everything but imported and virtual GPU memory. */
  virtual bool isTarget() const noexcept { return true; }

  bool isFreed() const;
  uint64_t pinCount() const;

  /** Gives it back now. Idempotent. kBusy while pinned (`value` = pins); nothing happens then. */
  Result free();

 protected:
  Memory(MemoryKind kind, uint64_t address, uint64_t sizeBytes) noexcept
      : kind_(kind), address_(address), sizeBytes_(sizeBytes) {}
  /** Once, under the lock or from the destructor of the class that implements it. */
  virtual void release() noexcept = 0;
  /** For those destructors. */
  void releaseOnce() noexcept;

  mutable std::mutex mutex_;

 private:
  friend class MemoryPin;
  bool pin();
  void unpin();

  const MemoryKind kind_;
  const uint64_t address_;
  const uint64_t sizeBytes_;
  uint64_t pins_ = 0;
  bool isFreed_ = false;
};

/** Move-only. While it exists, the memory stays. Empty when made of freed memory. */
class MemoryPin {
 public:
  MemoryPin() = default;
  explicit MemoryPin(std::shared_ptr<Memory> memory);
  ~MemoryPin();
  MemoryPin(MemoryPin&& other) noexcept = default;
  MemoryPin& operator=(MemoryPin&& other) noexcept;
  MemoryPin(const MemoryPin&) = delete;
  MemoryPin& operator=(const MemoryPin&) = delete;

  explicit operator bool() const noexcept { return memory_ != nullptr; }
  Memory* memory() const noexcept { return memory_.get(); }
  void reset();

 private:
  std::shared_ptr<Memory> memory_;
};
static_assert(!std::is_copy_constructible_v<MemoryPin>);
static_assert(!std::is_copy_constructible_v<Memory>);

/** Whether memory of this size may be asked for. */
Result checkMemorySize(uint64_t sizeBytes);

/** To whole units, of pages for instance. */
constexpr uint64_t roundUp(uint64_t value, uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

}  // namespace kvferry
