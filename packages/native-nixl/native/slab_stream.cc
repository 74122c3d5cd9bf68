#include "slab_stream.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "block_stream.h"
#include "kernel_launch.h"
#include "slab_wire.h"

namespace kvferry {
namespace {

constexpr uint64_t kCutBytes = 16;

/** How many pieces a part has, and in how many runs, by the rule of `kvferry_pack`. */
struct Pieces {
  uint64_t count = 0;
  uint64_t runs = 0;
};

Pieces piecesOf(uint64_t blockBytes, uint64_t start, uint64_t bytes) noexcept {
  const uint64_t offset = start % blockBytes;
  const uint64_t head = offset == 0 ? 0 : std::min(blockBytes - offset, bytes);
  const uint64_t whole = (bytes - head) / blockBytes;
  const bool hasTail = head + whole * blockBytes < bytes;
  const uint64_t ends = (head > 0 ? 1 : 0) + (hasTail ? 1 : 0);
  return {whole + ends, ends + (whole > 0 ? 1 : 0)};
}

}  // namespace

SlabPart cutStream(uint64_t blockBytes, uint64_t start, uint64_t left, uint64_t slabBytes) noexcept {
  // Room beside the whole blocks and their pieces: three runs, the pieces of two ends, and the list's alignment.
  const uint64_t room =
      slabBytes - kStreamRunsMax * kSlabRunBytes - 2 * kSlabPieceBytes - (kSlabPieceBytes - 1);
  const uint64_t offset = start % blockBytes;
  uint64_t bytes = offset == 0 ? 0 : std::min(blockBytes - offset, left);
  if (bytes > room) {
    bytes = room / kCutBytes * kCutBytes;
  } else {
    const uint64_t whole =
        std::min((left - bytes) / blockBytes, (room - bytes) / (blockBytes + kSlabPieceBytes));
    const uint64_t rest = room - bytes - whole * (blockBytes + kSlabPieceBytes);
    bytes += whole * blockBytes;
    const uint64_t more = left - bytes;
    bytes += more <= rest ? more : rest / kCutBytes * kCutBytes;
  }
  const Pieces pieces = piecesOf(blockBytes, start, bytes);
  return {start, bytes, pieces.runs * kSlabRunBytes + pieces.count * kSlabPieceBytes, pieces.runs};
}

uint64_t countPairs(uint64_t bytes, uint64_t blockBytes, uint64_t otherBlockBytes) noexcept {
  // A piece ends where a block of either side does. Sizes are below 2^53, but their product needn't be below 2^64.
  const uint64_t step = otherBlockBytes / std::gcd(blockBytes, otherBlockBytes);
  return bytes / blockBytes + bytes / otherBlockBytes - bytes / blockBytes / step;
}

Result SlabStream::open(CudaDevice& device, const PlanSide& local, const PlanSide& remote,
                        std::unique_ptr<SlabStream>* stream) {
  std::unique_ptr<SlabStream> made(new SlabStream(device));
  const uint64_t localBytes = streamBytes(local);
  const uint64_t bytes = localBytes + streamBytes(remote);
  Result result = device.takeLane(&made->lane_, bytes);
  if (result.ok()) result = made->lane_->reserve(bytes);
  if (!result.ok()) return result;
  CudaLane& lane = *made->lane_;
  made->local_ = putStream(local, lane, 0);
  made->remote_ = putStream(remote, lane, localBytes);
  result = lane.upload(0, bytes);
  if (result.ok()) result = lane.mark();
  if (!result.ok()) return result;
  *stream = std::move(made);
  return result;
}

SlabStream::~SlabStream() {
  // Kernels that read it are over; that it was uploaded at all need not be.
  if (lane_ != nullptr && lane_->finish().ok()) device_.give(std::move(lane_));
}

Result SlabStream::pack(CudaLane& lane, const SlabPart& part, uint64_t packed, bool isGather,
                        uint64_t list) {
  Result result = isThere_ ? Result::success() : lane_->isDone(&isThere_);
  if (result.ok() && !isThere_) result = lane.waitFor(*lane_);
  if (!result.ok()) return result;
  kernels::PackArguments arguments = {};
  arguments.blocks = local_;
  arguments.listed = remote_;
  arguments.start = part.start;
  arguments.bytes = part.payloadBytes;
  arguments.packed = packed;
  arguments.isGather = isGather ? 1 : 0;
  arguments.list = list;
  arguments.partBytes = kPartBytes;
  const uint64_t pieces = list == 0 ? 0 : part.listBytes / kSlabPieceBytes;
  const uint64_t moved =
      packed == 0 ? 0 : warpBlocks(packUnits(arguments.blocks.blockBytes, part.payloadBytes));
  return launchWide(device_, lane, CudaKernel::kPack,
                    std::max(moved, (pieces + kThreadsPerBlock - 1) / kThreadsPerBlock),
                    &arguments);
}

}  // namespace kvferry
