// The way into the agent's thread: a bounded queue that never blocks the pushing side, and the
// place where the taking side sleeps. One mutex, held for moments. Any thread pushes and wakes; one
// takes.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <utility>
#include <vector>

namespace kvferry {

template <class T>
class CommandQueue {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  explicit CommandQueue(size_t capacity) : capacity_(capacity) {}
  CommandQueue(const CommandQueue&) = delete;
  CommandQueue& operator=(const CommandQueue&) = delete;

  /**
   * All or none; false: no room, and `items` is untouched. If `*isNotifyDue`, the caller calls
   * `notify` once it has let go of its own locks: the taker needs them, and would wake only to
   * wait.
   */
  bool pushAll(std::vector<T>&& items, bool* isNotifyDue) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (items.size() > capacity_ - items_.size()) return false;
    for (T& item : items) items_.push_back(std::move(item));
    hasItems_.store(!items_.empty(), std::memory_order_release);
    *isNotifyDue = isAsleep_;
    return true;
  }

  void notify() { condition_.notify_one(); }

  /** False: no room, and `item` is untouched. */
  bool push(T&& item) {
    bool isAsleep = false;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (items_.size() == capacity_) return false;
      items_.push_back(std::move(item));
      hasItems_.store(true, std::memory_order_release);
      isAsleep = isAsleep_;
    }
    if (isAsleep) condition_.notify_one();
    return true;
  }

  bool hasItems() const noexcept { return hasItems_.load(std::memory_order_acquire); }

  /** Replaces `out` by everything queued, in order; its old storage is reused. */
  void takeAll(std::vector<T>* out) {
    out->clear();
    std::lock_guard<std::mutex> lock(mutex_);
    items_.swap(*out);
    hasItems_.store(false, std::memory_order_release);
  }

  /** Makes the current or the next wait return, without an item. */
  void wake() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      isWoken_ = true;
    }
    condition_.notify_one();
  }

  /** Sleeps until there is an item or a wake. */
  void wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    isAsleep_ = true;
    condition_.wait(lock, [this] { return isReady(); });
    isAsleep_ = isWoken_ = false;
  }

  /** As `wait`, at the latest until `end`. */
  void waitUntil(TimePoint end) {
    std::unique_lock<std::mutex> lock(mutex_);
    isAsleep_ = true;
    condition_.wait_until(lock, end, [this] { return isReady(); });
    isAsleep_ = isWoken_ = false;
  }

 private:
  bool isReady() const { return isWoken_ || !items_.empty(); }

  const size_t capacity_;
  std::mutex mutex_;
  std::condition_variable condition_;
  std::vector<T> items_;
  std::atomic<bool> hasItems_{false};
  bool isAsleep_ = false;
  bool isWoken_ = false;
};

}  // namespace kvferry
