// Transfer memory of the host: private anonymous pages, 2 MiB-aligned and zeroed, on huge pages
// when the system has them (page pinning dominates same-host copies; huge pages double the
// bandwidth). Where another process must map the same pages: a memfd, made here or imported by its
// descriptor. A pin keeps the pages mapped: registrations and kernel jobs hold one. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <type_traits>

#include "status.h"

namespace kvferry {

class HostMemory {
 public:
  /** kLimit (`memorySizeBytes`) for a size of 0, over 2^53 - 1, or when the system has none left.
   */
  static Result allocate(uint64_t sizeBytes, bool isHuge, std::shared_ptr<HostMemory>* memory);

  /**
   * As `allocate`, in a memfd that can't be shrunk, so that whoever maps it can't be made to fault.
   * The descriptor is closed on exec and owned by the memory.
   */
  static Result allocateShared(uint64_t sizeBytes, bool isHuge,
                               std::shared_ptr<HostMemory>* memory);

  /**
   * Maps the first `sizeBytes` of the memfd (or file in memory) behind `descriptor`, of which a
   * duplicate is kept; the caller's may be closed. Seals it against shrinking where its maker left
   * that open; elsewhere a maker that shrinks it ends this process (SIGBUS). kOutOfRange: no open
   * descriptor, a size of 0; kMessageInvalid, with the reason: no such file, fewer bytes in it,
   * not writable; kLimit: no room to map it.
   */
  static Result import(int descriptor, uint64_t sizeBytes, std::shared_ptr<HostMemory>* memory);

  /** The last owner is gone; nothing can be pinned any more (pins are held by owners). */
  ~HostMemory();
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

  /** Stable until freed; dereference only while pinned, or on the thread that frees. */
  uint8_t* data() const noexcept { return data_; }
  uint64_t sizeBytes() const noexcept { return sizeBytes_; }
  uintptr_t address() const noexcept { return reinterpret_cast<uintptr_t>(data_); }

  /** Of the file that holds the pages; -1 for private pages, and once freed. */
  int descriptor() const;

  bool isFreed() const;
  uint64_t pinCount() const;

  /** Unmaps now. Idempotent. kBusy while pinned (`value` = pins); nothing happens then. */
  Result free();

 private:
  friend class MemoryPin;
  HostMemory(uint8_t* data, uint64_t sizeBytes, uint64_t mappedBytes, int descriptor) noexcept
      : data_(data), sizeBytes_(sizeBytes), mappedBytes_(mappedBytes), descriptor_(descriptor) {}
  /** Maps and takes over `descriptor` (-1: private pages), also when it fails. */
  static Result map(int descriptor, uint64_t sizeBytes, bool isHuge,
                    std::shared_ptr<HostMemory>* memory);
  void release() noexcept;
  bool pin();
  void unpin();

  uint8_t* const data_;
  const uint64_t sizeBytes_;
  const uint64_t mappedBytes_;
  int descriptor_;
  mutable std::mutex mutex_;
  uint64_t pins_ = 0;
  bool isFreed_ = false;
};

/** Move-only. While it exists, the memory stays mapped. Empty when made of freed memory. */
class MemoryPin {
 public:
  MemoryPin() = default;
  explicit MemoryPin(std::shared_ptr<HostMemory> memory);
  ~MemoryPin();
  MemoryPin(MemoryPin&& other) noexcept = default;
  MemoryPin& operator=(MemoryPin&& other) noexcept;
  MemoryPin(const MemoryPin&) = delete;
  MemoryPin& operator=(const MemoryPin&) = delete;

  explicit operator bool() const noexcept { return memory_ != nullptr; }
  HostMemory* memory() const noexcept { return memory_.get(); }
  void reset();

 private:
  std::shared_ptr<HostMemory> memory_;
};
static_assert(!std::is_copy_constructible_v<MemoryPin>);
static_assert(!std::is_copy_constructible_v<HostMemory>);

}  // namespace kvferry
