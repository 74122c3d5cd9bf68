#include "piece_copy.h"

#include <algorithm>
#include <cstring>

namespace kvferry {
namespace {

/** What one warp copies at a time: enough for four 16-byte loads of each thread, four times over. */
constexpr uint64_t kPartBytes = 8'192;
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

Result PieceCopy::enqueue(CudaDevice& device, CudaLane& lane, uint64_t blocksMax) const {
  CudaHandle function = nullptr;
  Result result = device.function(CudaKernel::kCopyPieces, &function);
  if (!result.ok() || pieces_.empty()) return result;
  std::memcpy(lane.host(), pieces_.data(), listBytes());
  result = lane.upload(0, listBytes());
  if (!result.ok()) return result;
  uint64_t longest = 0;
  for (const kernels::CopyPiece& piece : pieces_) longest = std::max(longest, piece.bytes);
  kernels::PieceArguments arguments;
  arguments.pieces = reinterpret_cast<const kernels::CopyPiece*>(lane.onDevice());
  arguments.pieceCount = pieces_.size();
  arguments.partsPerPiece = (longest + kPartBytes - 1) / kPartBytes;
  arguments.partBytes = kPartBytes;
  const uint64_t warps = arguments.pieceCount * arguments.partsPerPiece;
  const uint64_t most = blocksMax > 0 ? blocksMax : 2 * static_cast<uint64_t>(device.processorCount());
  return lane.launch(function, std::min((warps + kWarpsPerBlock - 1) / kWarpsPerBlock, most),
                     &arguments);
}

}  // namespace kvferry
