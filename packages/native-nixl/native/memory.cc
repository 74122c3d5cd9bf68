#include "memory.h"

#include <utility>

#include "limits.h"

namespace kvferry {

bool Memory::isFreed() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return isFreed_;
}

uint64_t Memory::pinCount() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return pins_;
}

Result Memory::free() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (isFreed_) return Result::success();
  if (pins_ > 0) return Result::busy("memory", pins_);
  releaseOnce();
  return Result::success();
}

void Memory::releaseOnce() noexcept {
  if (!std::exchange(isFreed_, true)) release();
}

bool Memory::pin() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (isFreed_) return false;
  pins_ += 1;
  return true;
}

void Memory::unpin() {
  std::lock_guard<std::mutex> lock(mutex_);
  pins_ -= 1;
}

MemoryPin::MemoryPin(std::shared_ptr<Memory> memory) {
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

Result checkMemorySize(uint64_t sizeBytes) {
  if (sizeBytes != 0 && sizeBytes <= limits::kSafeIntegerMax) return Result::success();
  return Result::overLimit("memorySizeBytes", sizeBytes, limits::kSafeIntegerMax);
}

}  // namespace kvferry
