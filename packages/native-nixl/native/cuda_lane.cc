#include "cuda_lane.h"

#include <algorithm>

namespace kvferry {
namespace {

constexpr uint64_t kSizeBytesMin = 256 * 1'024;
constexpr unsigned kThreads = kWarpsPerBlock * 32;

}  // namespace

CudaLane::~CudaLane() {
  // Streams and events of ours stay with the context: a lane ends only when something failed, and what
  // failed may still be running.
  if (host_ == nullptr || !device_.enter().ok()) return;
  if (device_.api().streamSynchronize(stream_) != cuda::kSuccess) return;
  device_.api().hostFree(host_);
  device_.api().memoryFree(onDevice_);
}

Result CudaLane::start() {
  const CudaApi& api = device_.api();
  Result made = api.check(api.streamCreate(&stream_, cuda::kStreamNonBlocking), "streamCreate");
  if (!made.ok()) return made;
  return api.check(api.eventCreate(&event_, cuda::kEventDisableTiming), "eventCreate");
}

Result CudaLane::reserve(uint64_t sizeBytes) {
  if (sizeBytes <= sizeBytes_) return Result::success();
  const CudaApi& api = device_.api();
  if (host_ != nullptr) {
    api.hostFree(host_);
    api.memoryFree(onDevice_);
  }
  host_ = nullptr;
  onDevice_ = 0;
  sizeBytes_ = 0;
  uint64_t size = kSizeBytesMin;
  while (size < sizeBytes) size *= 2;
  void* host = nullptr;
  Result made = api.check(api.hostAllocate(&host, size, cuda::kHostRegisterPortable), "hostAllocate");
  if (!made.ok()) return made;
  made = api.check(api.memoryAllocate(&onDevice_, size), "memoryAllocate");
  if (!made.ok()) {
    api.hostFree(host);
    return made;
  }
  host_ = static_cast<uint8_t*>(host);
  sizeBytes_ = size;
  return made;
}

Result CudaLane::upload(uint64_t offset, uint64_t sizeBytes) {
  return copy(onDevice_ + offset, reinterpret_cast<CudaPointer>(host_) + offset, sizeBytes);
}

Result CudaLane::download(uint64_t offset, uint64_t sizeBytes) {
  return copy(reinterpret_cast<CudaPointer>(host_) + offset, onDevice_ + offset, sizeBytes);
}

Result CudaLane::copy(CudaPointer to, CudaPointer from, uint64_t sizeBytes) {
  const CudaApi& api = device_.api();
  return api.check(api.copyAsync(to, from, sizeBytes, stream_), "copyAsync");
}

Result CudaLane::clear(CudaPointer at, uint64_t sizeBytes) {
  const CudaApi& api = device_.api();
  return api.check(api.memorySet(at, 0, sizeBytes, stream_), "memorySet");
}

Result CudaLane::launch(CudaHandle function, uint64_t blocks, void* arguments) {
  const CudaApi& api = device_.api();
  void* parameters[] = {arguments};
  const auto count = static_cast<unsigned>(std::clamp<uint64_t>(blocks, 1, 65'535));
  return api.check(
      api.launch(function, count, 1, 1, kThreads, 1, 1, 0, stream_, parameters, nullptr), "launch");
}

Result CudaLane::waitFor(const CudaLane& other) {
  const CudaApi& api = device_.api();
  return api.check(api.streamWait(stream_, other.event_, 0), "streamWait");
}

Result CudaLane::finish() {
  const CudaApi& api = device_.api();
  return api.check(api.streamSynchronize(stream_), "streamSynchronize");
}

Result CudaLane::mark() {
  const CudaApi& api = device_.api();
  return api.check(api.eventRecord(event_, stream_), "eventRecord");
}

Result CudaLane::isDone(bool* done) const {
  const CudaApi& api = device_.api();
  const int status = api.eventQuery(event_);
  *done = status != cuda::kNotReady;
  return *done ? api.check(status, "eventQuery") : Result::success();
}

}  // namespace kvferry
