#include "slab_mover.h"

#include <cstring>
#include <utility>

#include "block_stream.h"
#include "kernel_launch.h"
#include "slab_wire.h"

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
  pieces_.clear();
  for (const kernels::CopyPiece& piece : pieces) pieces_.add(piece.to, piece.from, piece.bytes);
  // Behind the list of pieces, which the kernel reads.
  const uint64_t listAt = (pieces_.listBytes() + 15) / 16 * 16;
  Result result = device_->takeLane(&lane, listAt + list.size());
  if (result.ok()) result = lane->reserve(listAt + list.size());
  if (result.ok() && !list.empty()) {
    std::memcpy(lane->host() + listAt, list.data(), list.size());
    result = lane->copy(listTo, reinterpret_cast<CudaPointer>(lane->host()) + listAt, list.size());
  }
  if (result.ok() && !pieces_.isEmpty()) result = pieces_.enqueue(*device_, *lane);
  if (result.ok()) result = lane->mark();
  if (result.ok()) *job = std::move(lane);
  return result;
}

Result SlabMover::open(const PlanSide& local, const PlanSide& remote,
                       std::unique_ptr<SlabStream>* stream) {
  if (device_ == nullptr || !isEven(local) || !isEven(remote)) return Result::success();
  return SlabStream::open(*device_, local, remote, stream);
}

Result SlabMover::fill(SlabStream& stream, const SlabPart& part, uint64_t slab, bool isRead,
                       SlabJob* job) {
  SlabJob lane;
  Result result = device_->takeLane(&lane);
  if (result.ok()) {
    const uint64_t list = slab + alignedSlabBytes(part.payloadBytes);
    result = stream.pack(*lane, part, isRead ? 0 : slab, true, list);
  }
  if (result.ok()) result = lane->mark();
  if (result.ok()) *job = std::move(lane);
  return result;
}

Result SlabMover::place(SlabStream& stream, const SlabPart& part, uint64_t slab, SlabJob* job) {
  SlabJob lane;
  Result result = device_->takeLane(&lane);
  if (result.ok()) result = stream.pack(*lane, part, slab, false, 0);
  if (result.ok()) result = lane->mark();
  if (result.ok()) *job = std::move(lane);
  return result;
}

Result SlabMover::setRanges(const std::vector<kernels::AddressRange>& ranges) {
  Result result = ranges_ == nullptr ? device_->takeLane(&ranges_) : Result::success();
  if (!result.ok()) return result;
  ArgumentList list;
  list.add(ranges);
  rangeCount_ = 0;
  result = list.upload(*ranges_);
  if (result.ok()) result = ranges_->finish();
  if (result.ok()) rangeCount_ = ranges.size();
  return result;
}

Result SlabMover::moveListed(const SlabPart& part, uint64_t slab, bool isScatter, SlabJob* job) {
  SlabJob lane;
  Result result = device_->takeLane(&lane, sizeof(uint64_t));
  if (result.ok()) result = lane->reserve(sizeof(uint64_t));
  if (!result.ok()) return result;
  // Every thread of the second launch asks for the answer, so it lies on the GPU and is fetched at the end.
  result = lane->clear(lane->onDevice(), sizeof(uint64_t));
  if (!result.ok()) return result;
  kernels::ListedArguments arguments = {};
  arguments.ranges = reinterpret_cast<const kernels::AddressRange*>(ranges_->onDevice());
  arguments.rangeCount = rangeCount_;
  arguments.payload = slab;
  arguments.payloadBytes = part.payloadBytes;
  arguments.list = slab + alignedSlabBytes(part.payloadBytes);
  arguments.listBytes = part.listBytes;
  arguments.runCount = part.runCount;
  arguments.isScatter = isScatter ? 1 : 0;
  arguments.isCheck = 1;
  arguments.partBytes = kPartBytes;
  arguments.answer = reinterpret_cast<uint64_t*>(lane->onDevice());
  const uint64_t pieces = part.listBytes / kSlabPieceBytes;
  result = launchWide(*device_, *lane, CudaKernel::kMoveListed, warpBlocks(pieces / 32 + 1), &arguments);
  if (!result.ok()) return result;
  arguments.isCheck = 0;
  // At least one a piece, and one a part.
  const uint64_t units = pieces + part.payloadBytes / kPartBytes + 1;
  result = launchWide(*device_, *lane, CudaKernel::kMoveListed, warpBlocks(units), &arguments);
  if (result.ok()) result = lane->download(0, sizeof(uint64_t));
  if (result.ok()) result = lane->mark();
  if (result.ok()) *job = std::move(lane);
  return result;
}

uint64_t SlabMover::answerOf(const SlabJob& job) const noexcept {
  return *reinterpret_cast<const volatile uint64_t*>(job->host());
}

Result SlabMover::fetch(uint64_t from, uint64_t sizeBytes, SlabJob* job) {
  if (device_ == nullptr) return Result::success();
  SlabJob lane;
  Result result = device_->takeLane(&lane, sizeBytes);
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

void SlabMover::settle(const SlabJob& job) noexcept {
  if (job != nullptr) static_cast<void>(job->finish());
}

void SlabMover::close(SlabJob* job) {
  if (*job != nullptr) device_->give(std::move(*job));
}

}  // namespace kvferry
