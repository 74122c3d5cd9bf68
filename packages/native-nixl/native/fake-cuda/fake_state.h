// What the two halves of the fake driver share: its state, under one lock. See fake_driver.cc.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "../cuda_api.h"

#define FAKE_EXPORT extern "C" __attribute__((visibility("default")))

namespace fakecuda {

using kvferry::CudaAccess;
using kvferry::CudaAllocationProperties;
using kvferry::CudaHandle;
using kvferry::CudaIpcHandle;
using kvferry::CudaPointer;

inline constexpr int kSuccess = 0;
inline constexpr int kInvalidValue = 1;
inline constexpr int kOutOfMemory = 2;
inline constexpr int kNoDevice = 100;
inline constexpr int kInvalidDevice = 101;
inline constexpr int kInvalidContext = 201;
inline constexpr int kPeerAccessUnsupported = 217;
inline constexpr int kInvalidHandle = 400;
inline constexpr int kNotFound = 500;
inline constexpr int kNotReady = 600;
inline constexpr uint64_t kUnit = uint64_t{2} << 20;

enum class Kind { kPlain, kImported, kVirtual };

struct Range {
  uint64_t bytes = 0;
  int file = -1;
  Kind kind = Kind::kPlain;
  int device = 0;
  /** Imported: how often it is open here. The driver maps it once. */
  uint64_t openCount = 0;
};

struct Work {
  std::function<void()> run;
  /** What comes behind waits until it answers true. */
  std::function<bool()> isReady;
};

struct Stream {
  std::deque<Work> work;
  uint64_t enqueued = 0;
  uint64_t done = 0;

  void push(std::function<void()> run, std::function<bool()> isReady = {}) {
    work.push_back({std::move(run), std::move(isReady)});
    enqueued += 1;
  }
  /** False: nothing there, or what is there still waits. */
  bool step() {
    if (work.empty()) return false;
    const Work& first = work.front();
    if (first.isReady && !first.isReady()) return false;
    if (first.run) first.run();
    work.pop_front();
    done += 1;
    return true;
  }
};

/** What other processes see of an event: recorded so often, and the last of these that happened. */
struct SharedEvent {
  std::atomic<uint64_t> recorded;
  std::atomic<uint64_t> happened;
};

struct Event {
  /** Where it was recorded last; null: nowhere here. */
  Stream* stream = nullptr;
  uint64_t after = 0;
  /** Of one made for other processes, or another's; null: neither. */
  SharedEvent* shared = nullptr;
  int file = -1;
};

struct Virtual {
  int file = -1;
  uint64_t bytes = 0;
};

struct Driver {
  std::recursive_mutex mutex;
  std::map<uint64_t, Range> ranges;
  std::map<uint64_t, Virtual> virtuals;
  std::map<uint64_t, uint64_t> reserved;
  std::map<void*, size_t> registered;
  /** Those that were not destroyed. */
  std::set<Event*> events;
  /** The context's own stream, by GPU: what 0 stands for. */
  std::map<uintptr_t, Stream> ownStreams;
  /** Which GPU's context may use which other's memory. */
  std::set<std::pair<int, int>> peers;
  /** Where memory of other processes is mapped, by its file. */
  std::map<uint64_t, uint64_t> opened;
  uint64_t nextVirtual = 1;
};

/** Never destroyed: threads may outlive the exit handlers. */
inline Driver& driver() {
  static auto* one = new Driver;
  return *one;
}

using Lock = std::lock_guard<std::recursive_mutex>;
/** 0 is the context's own. */
Stream* streamOf(CudaHandle handle);

/** Context of the calling thread: the number of its GPU plus one. */
inline thread_local uintptr_t current = 0;

inline unsigned setting(const char* name, unsigned otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : static_cast<unsigned>(std::atoi(value));
}

inline int deviceCount() { return static_cast<int>(setting("KVFERRY_FAKE_CUDA_DEVICES", 2)); }

inline bool areLinked(int device, int other) {
  return device == other || setting("KVFERRY_FAKE_CUDA_LINKS", 1) != 0;
}

inline bool isDevice(int device) { return device >= 0 && device < deviceCount(); }

}  // namespace fakecuda
