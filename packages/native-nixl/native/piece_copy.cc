#include "piece_copy.h"

#include <algorithm>
#include <cstring>

#include "kernel_launch.h"

namespace kvferry {
namespace {

constexpr uint64_t kPieceBytesMax = 262'144;

}  // namespace

void PieceCopy::add(uint64_t to, uint64_t from, uint64_t bytes) {
  while (bytes > 0) {
    const uint64_t taken = std::min(bytes, kPieceBytesMax);
    pieces_.push_back({to, from, taken});
    to += taken;
    from += taken;
    bytes -= taken;
  }
}

Result PieceCopy::enqueue(CudaDevice& device, CudaLane& lane, uint64_t ctaMax) const {
  if (pieces_.empty()) return Result::success();
  std::memcpy(lane.host(), pieces_.data(), listBytes());
  Result result = lane.upload(0, listBytes());
  if (!result.ok()) return result;
  uint64_t longest = 0;
  for (const kernels::CopyPiece& piece : pieces_) longest = std::max(longest, piece.bytes);
  kernels::PieceArguments arguments;
  arguments.pieces = reinterpret_cast<const kernels::CopyPiece*>(lane.onDevice());
  arguments.pieceCount = pieces_.size();
  arguments.partsPerPiece = (longest + kPartBytes - 1) / kPartBytes;
  arguments.partBytes = kPartBytes;
  const uint64_t blocks = warpBlocks(arguments.pieceCount * arguments.partsPerPiece);
  return launchWide(device, lane, CudaKernel::kCopyPieces, std::min(blocks, ctaMax), &arguments);
}

}  // namespace kvferry
