// A bounded table whose entries are named by numbers that JS can hold exactly: 20 bits of index, 30
// bits of generation, 3 bits of kind. A handle that is stale, of another kind or of another agent
// finds nothing (generations start at a salt). Not synchronised: the owner locks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace kvferry {

enum class HandleKind : uint8_t { kRegion = 1, kPeer = 2, kTable = 3, kTransfer = 4, kFence = 5 };

template <class T>
class HandleTable {
 public:
  static constexpr uint64_t kIndexBits = 20;
  static constexpr uint64_t kGenerationBits = 30;
  static constexpr uint64_t kGenerationMask = (uint64_t{1} << kGenerationBits) - 1;
  static constexpr size_t kCapacityMax = size_t{1} << kIndexBits;

  HandleTable(HandleKind kind, size_t capacity, uint64_t salt)
      : kind_(kind),
        capacity_(capacity < kCapacityMax ? capacity : kCapacityMax),
        salt_(salt & kGenerationMask) {}
  HandleTable(const HandleTable&) = delete;
  HandleTable& operator=(const HandleTable&) = delete;

  size_t size() const noexcept { return slots_.size() - free_.size(); }
  bool isFull() const noexcept { return size() == capacity_; }

  /** 0, which is never a handle, when full. */
  uint64_t insert(T value) {
    if (isFull()) return 0;
    size_t index;
    if (free_.empty()) {
      index = slots_.size();
      slots_.push_back(Slot{salt_, std::nullopt});
    } else {
      index = free_.back();
      free_.pop_back();
    }
    slots_[index].value.emplace(std::move(value));
    return pack(index, slots_[index].generation);
  }

  /** Null for anything but a live handle of this table. Valid until the next insert or erase. */
  T* find(uint64_t handle) {
    Slot* slot = slotOf(handle);
    if (slot == nullptr || slot->generation != generationOf(handle)) return nullptr;
    return slot->value.has_value() ? &*slot->value : nullptr;
  }
  const T* find(uint64_t handle) const { return const_cast<HandleTable*>(this)->find(handle); }

  /** Whether this table gave the handle out once and it was erased since. */
  bool wasErased(uint64_t handle) const {
    const Slot* slot = const_cast<HandleTable*>(this)->slotOf(handle);
    if (slot == nullptr) return false;
    const uint64_t age = (generationOf(handle) - salt_) & kGenerationMask;
    return age < ((slot->generation - salt_) & kGenerationMask);
  }

  bool erase(uint64_t handle) {
    if (find(handle) == nullptr) return false;
    const size_t index = indexOf(handle);
    slots_[index].value.reset();
    slots_[index].generation = (slots_[index].generation + 1) & kGenerationMask;
    free_.push_back(index);
    return true;
  }

  /** Calls `visit(handle, value)` for each live entry; `visit` must not change the table. */
  template <class Visit>
  void forEach(Visit visit) {
    for (size_t i = 0; i < slots_.size(); i++) {
      if (slots_[i].value.has_value()) visit(pack(i, slots_[i].generation), *slots_[i].value);
    }
  }

 private:
  struct Slot {
    uint64_t generation;
    std::optional<T> value;
  };

  static size_t indexOf(uint64_t handle) noexcept { return handle & (kCapacityMax - 1); }
  static uint64_t generationOf(uint64_t handle) noexcept {
    return (handle >> kIndexBits) & kGenerationMask;
  }
  uint64_t pack(size_t index, uint64_t generation) const noexcept {
    return (static_cast<uint64_t>(kind_) << (kIndexBits + kGenerationBits)) |
           (generation << kIndexBits) | index;
  }
  Slot* slotOf(uint64_t handle) {
    if (handle >> (kIndexBits + kGenerationBits) != static_cast<uint64_t>(kind_)) return nullptr;
    const size_t index = indexOf(handle);
    return index < slots_.size() ? &slots_[index] : nullptr;
  }

  const HandleKind kind_;
  const size_t capacity_;
  const uint64_t salt_;
  std::vector<Slot> slots_;
  std::vector<size_t> free_;
};

}  // namespace kvferry
