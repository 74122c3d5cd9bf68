// The fake driver: streams and events, here and as other processes see them. Nothing happens in a stream by itself:
// a question or a wait lets it happen. An event that nobody recorded counts as done, and one that is recorded
// again means the later moment, as with a driver.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <string>

#include "fake_state.h"

using namespace fakecuda;

namespace {

struct EventContent {
  int32_t pid;
  int32_t file;
  uint64_t magic;
};
constexpr uint64_t kEventMagic = 0x6576656E74;
static_assert(sizeof(EventContent) <= sizeof(CudaIpcHandle));

SharedEvent* mapEvent(int file) {
  void* mapped = mmap(nullptr, sizeof(SharedEvent), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  return mapped == MAP_FAILED ? nullptr : static_cast<SharedEvent*>(mapped);
}

/** Null: destroyed, or never an event. */
Event* eventOf(CudaHandle handle) {
  auto* const event = static_cast<Event*>(handle);
  return driver().events.count(event) > 0 ? event : nullptr;
}

}  // namespace

namespace fakecuda {

Stream* streamOf(CudaHandle handle) {
  return handle != nullptr ? static_cast<Stream*>(handle) : &driver().ownStreams[current];
}

}  // namespace fakecuda

FAKE_EXPORT int cuStreamCreate(CudaHandle* stream, unsigned) {
  if (current == 0) return kInvalidContext;
  *stream = new Stream;
  return kSuccess;
}
FAKE_EXPORT int cuStreamSynchronize(CudaHandle stream) {
  for (;;) {
    {
      const Lock lock(driver().mutex);
      Stream* const each = streamOf(stream);
      while (each->step()) continue;
      if (each->work.empty()) return kSuccess;
    }
    usleep(100);
  }
}
FAKE_EXPORT int cuStreamWaitEvent(CudaHandle stream, CudaHandle event, unsigned) {
  const Lock lock(driver().mutex);
  const Event* const each = eventOf(event);
  if (each == nullptr) return kInvalidHandle;
  // As the event is marked now: it may be marked again later.
  streamOf(stream)->push({}, [marked = *each] {
    if (marked.stream == nullptr) return true;
    while (marked.stream->done < marked.after && marked.stream->step()) continue;
    return marked.stream->done >= marked.after;
  });
  return kSuccess;
}
/** Of the flags only "equal" is known. */
FAKE_EXPORT int cuStreamWaitValue32_v2(CudaHandle stream, CudaPointer at, uint32_t value, unsigned flags) {
  if (flags != 1) return kInvalidValue;
  const Lock lock(driver().mutex);
  streamOf(stream)->push({}, [=] {
    return reinterpret_cast<const std::atomic<uint32_t>*>(at)->load() == value;
  });
  return kSuccess;
}

FAKE_EXPORT int cuEventCreate(CudaHandle* event, unsigned flags) {
  if (current == 0) return kInvalidContext;
  const bool isForOthers = (flags & kvferry::cuda::kEventInterprocess) != 0;
  if (isForOthers && (flags & kvferry::cuda::kEventDisableTiming) == 0) return kInvalidValue;
  auto* const made = new Event;
  if (isForOthers) {
    made->file = memfd_create("kvferry-fake-event", MFD_CLOEXEC);
    const bool hasRoom = made->file >= 0 && ftruncate(made->file, sizeof(SharedEvent)) == 0;
    made->shared = hasRoom ? mapEvent(made->file) : nullptr;
    if (made->shared == nullptr) return kOutOfMemory;
  }
  const Lock lock(driver().mutex);
  driver().events.insert(made);
  *event = made;
  return kSuccess;
}
FAKE_EXPORT int cuEventRecord(CudaHandle event, CudaHandle stream) {
  const Lock lock(driver().mutex);
  Event* const each = eventOf(event);
  if (each == nullptr) return kInvalidHandle;
  each->stream = streamOf(stream);
  if (each->shared != nullptr) {
    const uint64_t count = each->shared->recorded += 1;
    each->stream->push([shared = each->shared, count] { shared->happened = count; });
  }
  each->after = each->stream->enqueued;
  return kSuccess;
}
/** Each question lets one thing happen. */
FAKE_EXPORT int cuEventQuery(CudaHandle event) {
  if (current == 0) return kInvalidContext;
  const unsigned status = setting("KVFERRY_FAKE_CUDA_QUERY_STATUS", 0);
  if (status != 0) return static_cast<int>(status);
  const Lock lock(driver().mutex);
  Event* const each = eventOf(event);
  if (each == nullptr) return kInvalidHandle;
  if (each->stream == nullptr) {
    // Another process's: what happens there is for its GPU to say.
    const bool isDone = each->shared == nullptr || each->shared->happened >= each->shared->recorded;
    return isDone ? kSuccess : kNotReady;
  }
  if (each->stream->done >= each->after) return kSuccess;
  if (setting("KVFERRY_FAKE_CUDA_STALLED", 0) == 0) each->stream->step();
  return kNotReady;
}
FAKE_EXPORT int cuEventDestroy_v2(CudaHandle event) {
  const Lock lock(driver().mutex);
  Event* const each = eventOf(event);
  if (each == nullptr) return kInvalidHandle;
  driver().events.erase(each);
  // What was enqueued still says that it happened: its page stays.
  if (each->file >= 0) close(each->file);
  delete each;
  return kSuccess;
}
FAKE_EXPORT int cuIpcGetEventHandle(CudaIpcHandle* handle, CudaHandle event) {
  const Lock lock(driver().mutex);
  const Event* const each = eventOf(event);
  if (each == nullptr || each->file < 0) return kInvalidHandle;
  const EventContent content{getpid(), each->file, kEventMagic};
  std::memset(handle, 0, sizeof *handle);
  std::memcpy(handle, &content, sizeof content);
  return kSuccess;
}
FAKE_EXPORT int cuIpcOpenEventHandle(CudaHandle* event, CudaIpcHandle handle) {
  if (current == 0) return kInvalidContext;
  EventContent content;
  std::memcpy(&content, &handle, sizeof content);
  if (content.magic != kEventMagic) return kInvalidHandle;
  if (content.pid == getpid()) return kInvalidContext;
  const std::string path =
      "/proc/" + std::to_string(content.pid) + "/fd/" + std::to_string(content.file);
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return kInvalidHandle;
  auto* const made = new Event;
  made->shared = mapEvent(file);
  close(file);
  if (made->shared == nullptr) return kOutOfMemory;
  const Lock lock(driver().mutex);
  driver().events.insert(made);
  *event = made;
  return kSuccess;
}
