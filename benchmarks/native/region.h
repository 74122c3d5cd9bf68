// The memory of a bare loop: of the host as the product allocates it, or of a GPU.
#pragma once

#include <sys/mman.h>

#include <cstring>
#include <memory>
#include <vector>

#include "cuda_memory.h"

constexpr uint8_t kUntouched = 0xA5;

class Region {
 public:
  /** `gpu`: its number; null: host memory, all untouched. */
  Region(uint64_t bytes, const char* gpu)
      : device_(gpu != nullptr ? std::make_unique<CudaMemory>(std::atoi(gpu), bytes) : nullptr),
        gpu_(gpu != nullptr ? std::strtoull(gpu, nullptr, 10) : 0),
        memory_(gpu == nullptr ? allocate(bytes) : nullptr),
        base_(gpu == nullptr ? reinterpret_cast<uintptr_t>(memory_) : device_->address()),
        bytes_(bytes) {
    if (memory_ != nullptr) std::memset(memory_, kUntouched, bytes);
  }

  /** The library's word for it: DRAM or VRAM. */
  int kind() const { return device_ != nullptr ? 1 : 0; }
  uint64_t gpu() const { return gpu_; }
  uintptr_t base() const { return base_; }
  uint64_t bytes() const { return bytes_; }
  /** Of the host only. */
  uint8_t* data() const { return memory_; }

  /** The region in pieces that fit host memory of one's own. */
  template <typename Visit>
  void eachStage(Visit visit) {
    std::vector<uint32_t> stage(kStageBytes / 4);
    for (uint64_t offset = 0; offset < bytes_; offset += kStageBytes) {
      const uint64_t left = bytes_ - offset;
      visit(offset, stage.data(), left < kStageBytes ? left : kStageBytes);
    }
  }

  void put(uint64_t offset, const uint32_t* words, uint64_t bytes) {
    if (device_ == nullptr) {
      std::memcpy(memory_ + offset, words, bytes);
    } else {
      device_->copy(base_ + offset, reinterpret_cast<uintptr_t>(words), bytes);
    }
  }

  void get(uint64_t offset, uint32_t* words, uint64_t bytes) {
    if (device_ == nullptr) {
      std::memcpy(words, memory_ + offset, bytes);
    } else {
      device_->copy(reinterpret_cast<uintptr_t>(words), base_ + offset, bytes);
    }
  }

 private:
  static constexpr uint64_t kStageBytes = uint64_t{16} << 20;
  static constexpr uint64_t kHugePageBytes = uint64_t{2} << 20;

  /** Private, 2 MiB-aligned, on huge pages where the kernel has them: what the product uses. */
  static uint8_t* allocate(uint64_t bytes) {
    const uint64_t reserved = bytes + kHugePageBytes;
    void* memory = mmap(nullptr, reserved, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) die("no memory");
    const auto start = reinterpret_cast<uintptr_t>(memory);
    auto* aligned =
        reinterpret_cast<uint8_t*>((start + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes);
    madvise(aligned, bytes, MADV_HUGEPAGE);
    return aligned;
  }

  const std::unique_ptr<CudaMemory> device_;
  const uint64_t gpu_;
  /** Null on a GPU. */
  uint8_t* const memory_;
  const uintptr_t base_;
  const uint64_t bytes_;
};
