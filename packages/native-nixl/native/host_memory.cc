#include "host_memory.h"

#include <sys/mman.h>

#include "limits.h"

namespace kvferry {
namespace {

constexpr uint64_t kAlignmentBytes = uint64_t{2} << 20;

constexpr uint64_t roundUp(uint64_t value, uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

}  // namespace

Result HostMemory::allocate(uint64_t sizeBytes, bool isHuge, std::shared_ptr<HostMemory>* memory) {
  if (sizeBytes == 0 || sizeBytes > limits::kSafeIntegerMax) {
    return Result::overLimit("memorySizeBytes", sizeBytes, limits::kSafeIntegerMax);
  }
  const uint64_t mappedBytes = roundUp(sizeBytes, kAlignmentBytes);
  // One alignment unit more, so that an aligned range lies inside; the rest is given back at once.
  const uint64_t reservedBytes = mappedBytes + kAlignmentBytes;
  void* reserved =
      mmap(nullptr, reservedBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (reserved == MAP_FAILED) {
    Result result = Result::overLimit("memorySizeBytes", sizeBytes, 0);
    result.detail = "the system has no memory of this size";
    return result;
  }
  const auto start = reinterpret_cast<uintptr_t>(reserved);
  const uintptr_t aligned = roundUp(start, kAlignmentBytes);
  if (aligned > start) munmap(reserved, aligned - start);
  const uintptr_t end = start + reservedBytes;
  if (end > aligned + mappedBytes) {
    munmap(reinterpret_cast<void*>(aligned + mappedBytes), end - (aligned + mappedBytes));
  }
  auto* data = reinterpret_cast<uint8_t*>(aligned);
  // Advice only: a kernel without huge pages answers an error, and small pages are right, just
  // slower.
  madvise(data, mappedBytes, isHuge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  memory->reset(new HostMemory(data, sizeBytes, mappedBytes));
  return Result::success();
}

HostMemory::~HostMemory() {
  if (!isFreed_) munmap(data_, mappedBytes_);
}

bool HostMemory::isFreed() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return isFreed_;
}

uint64_t HostMemory::pinCount() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return pins_;
}

Result HostMemory::free() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (isFreed_) return Result::success();
  if (pins_ > 0) return Result::busy("memory", pins_);
  munmap(data_, mappedBytes_);
  isFreed_ = true;
  return Result::success();
}

bool HostMemory::pin() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (isFreed_) return false;
  pins_ += 1;
  return true;
}

void HostMemory::unpin() {
  std::lock_guard<std::mutex> lock(mutex_);
  pins_ -= 1;
}

MemoryPin::MemoryPin(std::shared_ptr<HostMemory> memory) {
  if (memory != nullptr && memory->pin()) memory_ = std::move(memory);
}

MemoryPin::~MemoryPin() { reset(); }

MemoryPin& MemoryPin::operator=(MemoryPin&& other) noexcept {
  if (this != &other) {
    reset();
    memory_ = std::move(other.memory_);
  }
  return *this;
}

void MemoryPin::reset() {
  if (memory_ == nullptr) return;
  memory_->unpin();
  memory_.reset();
}

}  // namespace kvferry
