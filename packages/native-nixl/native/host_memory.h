// Transfer memory of the host: private anonymous pages, 2 MiB-aligned and zeroed, on huge pages
// when the system has them (page pinning dominates same-host copies; huge pages double the
// bandwidth). Where another process must map the same pages: a memfd, made here or imported by its
// descriptor. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "memory.h"

namespace kvferry {

class HostMemory final : public Memory, public std::enable_shared_from_this<HostMemory> {
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
  ~HostMemory() override;

  /**
   * Page-locks it for copies to and from GPUs, and lets kernels of `device` reach it, until it is
   * freed. Once: again for the same device it answers ok. kBusy: locked for another one; kCuda.
   */
  Result lockFor(const std::shared_ptr<CudaDevice>& device);

  CudaDevice* device() const noexcept override;

  /** Of the file that holds the pages; -1 for private pages, and once freed. */
  int descriptor() const;

 private:
  HostMemory(uint8_t* data, uint64_t sizeBytes, uint64_t mappedBytes, int descriptor) noexcept
      : Memory(MemoryKind::kHost, reinterpret_cast<uint64_t>(data), sizeBytes),
        mappedBytes_(mappedBytes),
        descriptor_(descriptor) {}
  /** Maps and takes over `descriptor` (-1: private pages), also when it fails. */
  static Result map(int descriptor, uint64_t sizeBytes, bool isHuge,
                    std::shared_ptr<HostMemory>* memory);
  void release() noexcept override;

  const uint64_t mappedBytes_;
  int descriptor_;
  std::shared_ptr<CudaDevice> lockedFor_;
};

}  // namespace kvferry
