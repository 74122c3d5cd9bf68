#include "slab_task.h"

#include <algorithm>

namespace kvferry {

void SlabCopies::add(uint64_t to, uint64_t from, uint64_t bytes) {
  if (!pieces.empty()) {
    kernels::CopyPiece& last = pieces.back();
    if (last.to + last.bytes == to && last.from + last.bytes == from) {
      last.bytes += bytes;
      return;
    }
  }
  pieces.push_back({to, from, bytes});
}

void SlabCopies::clear() {
  pieces.clear();
  list.clear();
  remote.clear();
  startsRun.clear();
}

SlabPart cutSlab(SlabTask& task, uint64_t slabBytes, uint64_t slab, SideCursor* local,
                 SlabCopies* copies) {
  copies->clear();
  SlabFill fill(slabBytes);
  const uint64_t start = task.transfer->completion.bytes - task.bytesLeft;
  while (!task.remote.isAtEnd()) {
    const SlabPiece piece = task.remote.piece();
    bool isStart = false;
    const uint64_t taken = fill.offer(piece.bytes, &isStart);
    if (taken == 0) break;
    copies->remote.push_back({piece.address, taken});
    copies->startsRun.push_back(isStart);
    task.remote.take(taken);
    if (taken < piece.bytes) break;
  }
  *local = task.local;
  uint64_t to = slab;
  for (uint64_t left = fill.payloadBytes(); left > 0;) {
    const uint64_t bytes = std::min({left, task.local.left(), task.remotePieces.left()});
    if (!task.isRead()) {
      copies->add(to, task.local.address(), bytes);
      to += bytes;
    }
    task.transfer->completion.descriptorsBeforeMerge += task.isMidPair ? 0 : 1;
    task.isMidPair = bytes < task.local.left() && bytes < task.remotePieces.left();
    task.local.take(bytes);
    task.remotePieces.take(bytes);
    left -= bytes;
  }
  task.bytesLeft -= fill.payloadBytes();
  copies->list.resize(fill.listBytes());
  writePieceList(copies->remote, copies->startsRun, copies->list.data());
  return {start, fill.payloadBytes(), fill.listBytes(), 0};
}

SlabPart cutNext(SlabTask& task, uint64_t slabBytes) {
  TransferCompletion& completion = task.transfer->completion;
  const uint64_t blockBytes = task.transfer->remote.entry->table.regions.front().blockSizeBytes;
  const SlabPart part =
      cutStream(blockBytes, completion.bytes - task.bytesLeft, task.bytesLeft, slabBytes);
  task.bytesLeft -= part.payloadBytes;
  completion.descriptorsBeforeMerge =
      countPairs(completion.bytes, blockBytes,
                 task.transfer->local.entry->table.regions.front().blockSizeBytes);
  return part;
}

void placeSlab(uint64_t slab, uint64_t payloadBytes, SideCursor to, SlabCopies* copies) {
  copies->clear();
  while (payloadBytes > 0) {
    const uint64_t bytes = std::min(payloadBytes, to.left());
    copies->add(to.address(), slab, bytes);
    slab += bytes;
    payloadBytes -= bytes;
    to.take(bytes);
  }
}

}  // namespace kvferry
