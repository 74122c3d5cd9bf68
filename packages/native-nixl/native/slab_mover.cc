#include "slab_mover.h"

#include <cstring>
#include <utility>

namespace kvferry {

SlabMover::SlabMover(std::shared_ptr<CudaDevice> device) : device_(std::move(device)) {}

Result SlabMover::start(const std::vector<kernels::CopyPiece>& pieces,
                        const std::vector<uint8_t>& list, uint64_t listTo, SlabJob* job) {
  if (device_ == nullptr) {
    for (const kernels::CopyPiece& piece : pieces) {
      std::memcpy(reinterpret_cast<uint8_t*>(piece.to),
                  reinterpret_cast<const uint8_t*>(piece.from), piece.bytes);
    }
    if (!list.empty()) std::memcpy(reinterpret_cast<uint8_t*>(listTo), list.data(), list.size());
    return Result::success();
  }
  SlabJob lane;
  Result result = device_->takeLane(&lane);
  if (!result.ok()) return result;
  pieces_.clear();
  for (const kernels::CopyPiece& piece : pieces) pieces_.add(piece.to, piece.from, piece.bytes);
  // Behind the list of pieces, which the kernel reads.
  const uint64_t listAt = (pieces_.listBytes() + 15) / 16 * 16;
  result = lane->reserve(listAt + list.size());
  if (result.ok() && !list.empty()) {
    std::memcpy(lane->host() + listAt, list.data(), list.size());
    result = lane->copy(listTo, reinterpret_cast<CudaPointer>(lane->host()) + listAt, list.size());
  }
  if (result.ok() && !pieces_.isEmpty()) result = pieces_.enqueue(*device_, *lane);
  if (result.ok()) result = lane->mark();
  if (result.ok()) *job = std::move(lane);
  return result;
}

Result SlabMover::fetch(uint64_t from, uint64_t sizeBytes, SlabJob* job) {
  if (device_ == nullptr) return Result::success();
  SlabJob lane;
  Result result = device_->takeLane(&lane);
  if (result.ok()) result = lane->reserve(sizeBytes);
  if (result.ok()) {
    result = lane->copy(reinterpret_cast<CudaPointer>(lane->host()), from, sizeBytes);
  }
  if (result.ok()) result = lane->mark();
  if (result.ok()) *job = std::move(lane);
  return result;
}

void SlabMover::fetched(const SlabJob& job, uint64_t from, uint64_t sizeBytes,
                        std::vector<uint8_t>* bytes) {
  const uint8_t* start = job != nullptr ? job->host() : reinterpret_cast<const uint8_t*>(from);
  bytes->assign(start, start + sizeBytes);
}

Result SlabMover::poll(SlabJob* job, bool* isOver, bool isKept) {
  *isOver = true;
  if (*job == nullptr) return Result::success();
  Result result = (*job)->isDone(isOver);
  if (!result.ok()) {
    *isOver = true;
    job->reset();
  } else if (*isOver && !isKept) {
    close(job);
  }
  return result;
}

void SlabMover::settle(SlabJob* job) noexcept {
  if (*job == nullptr) return;
  if ((*job)->finish().ok()) close(job);
}

void SlabMover::close(SlabJob* job) {
  if (*job != nullptr) device_->give(std::move(*job));
}

}  // namespace kvferry
