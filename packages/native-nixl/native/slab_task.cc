#include "slab_task.h"

#include <algorithm>
#include <cstring>

namespace kvferry {

SlabPart cutSlab(SlabTask& task, uint64_t slabBytes, uint8_t* slab, SideCursor* local) {
  SlabFill fill(slabBytes);
  std::vector<SlabPiece> pieces;
  std::vector<bool> startsRun;
  while (!task.remote.isAtEnd()) {
    const SlabPiece piece = task.remote.piece();
    bool isStart = false;
    const uint64_t taken = fill.offer(piece.bytes, &isStart);
    if (taken == 0) break;
    pieces.push_back({piece.address, taken});
    startsRun.push_back(isStart);
    task.remote.take(taken);
    if (taken < piece.bytes) break;
  }
  *local = task.local;
  uint8_t* to = slab;
  for (uint64_t left = fill.payloadBytes(); left > 0;) {
    const uint64_t bytes = std::min({left, task.local.left(), task.remotePieces.left()});
    if (!task.isRead()) {
      std::memcpy(to, reinterpret_cast<const uint8_t*>(task.local.address()), bytes);
      to += bytes;
    }
    task.transfer->completion.descriptorsBeforeMerge += task.isMidPair ? 0 : 1;
    task.isMidPair = bytes < task.local.left() && bytes < task.remotePieces.left();
    task.local.take(bytes);
    task.remotePieces.take(bytes);
    left -= bytes;
  }
  task.bytesLeft -= fill.payloadBytes();
  writePieceList(pieces, startsRun, slab + alignedSlabBytes(fill.payloadBytes()));
  return {fill.payloadBytes(), fill.listBytes()};
}

void placeSlab(const uint8_t* slab, uint64_t payloadBytes, SideCursor to) {
  while (payloadBytes > 0) {
    const uint64_t bytes = std::min(payloadBytes, to.left());
    std::memcpy(reinterpret_cast<uint8_t*>(to.address()), slab, bytes);
    slab += bytes;
    payloadBytes -= bytes;
    to.take(bytes);
  }
}

}  // namespace kvferry
