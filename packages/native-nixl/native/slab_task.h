// One transfer by slabs: how far it is, and the cutting of its next slab. Borrowed by the loans that
// carry its parts; owned by the link to its peer. The agent's thread only.
#pragma once

#include <memory>
#include <vector>

#include "agent_state.h"
#include "cuda/kernel_arguments.h"
#include "side_cursor.h"
#include "slab_stream.h"
#include "slab_wire.h"

namespace kvferry {

/** The pieces of a side, neighbours in one registration merged. */
class MergedPieces {
 public:
  explicit MergedPieces(const PlanSide& side) : cursor_(side) { load(); }
  bool isAtEnd() const noexcept { return piece_.bytes == 0; }
  const SlabPiece& piece() const noexcept { return piece_; }
  /** At most what `piece` has. */
  void take(uint64_t bytes) noexcept {
    piece_.address += bytes;
    piece_.bytes -= bytes;
    if (piece_.bytes == 0) load();
  }

 private:
  void load() noexcept {
    piece_ = {};
    if (cursor_.isAtEnd()) return;
    piece_ = {cursor_.address(), 0};
    const uint32_t registration = cursor_.registration();
    while (!cursor_.isAtEnd() && cursor_.registration() == registration &&
           cursor_.address() == piece_.address + piece_.bytes) {
      piece_.bytes += cursor_.left();
      cursor_.take(cursor_.left());
    }
  }

  SideCursor cursor_;
  SlabPiece piece_;
};

struct SlabTask {
  explicit SlabTask(std::unique_ptr<Transfer> from)
      : transfer(std::move(from)),
        local(transfer->local.view()),
        remote(transfer->remote.view()),
        remotePieces(transfer->remote.view()),
        bytesLeft(transfer->completion.bytes) {}

  bool isRead() const noexcept { return transfer->direction == Direction::kRead; }
  /** No further slab leaves for it. */
  bool isTaken() const noexcept { return bytesLeft == 0 || !error.ok(); }

  std::unique_ptr<Transfer> transfer;
  /** The byte after the last one that was taken. */
  SideCursor local;
  MergedPieces remote;
  /** As `remote`, piece by piece: for counting. */
  SideCursor remotePieces;
  uint64_t bytesLeft;
  /** Where a GPU computes the addresses: the cursors above stay where they are. */
  std::unique_ptr<SlabStream> stream;
  /** `stream` was asked for. */
  bool isOpened = false;
  /** Loans that carry a part of it. */
  uint64_t outstanding = 0;
  bool isOverdue = false;
  /** The last slab ended within a pair of pieces, which is counted. */
  bool isMidPair = false;
  /** The first thing that went wrong. */
  Result error;
};

/** What is to be copied, and the list that belongs behind the payload. Reused from slab to slab. */
struct SlabCopies {
  std::vector<kernels::CopyPiece> pieces;
  std::vector<uint8_t> list;
  /** What the list says, and where a run starts. */
  std::vector<SlabPiece> remote;
  std::vector<bool> startsRun;

  /** Lengthens the last piece where it can. */
  void add(uint64_t to, uint64_t from, uint64_t bytes);
  void clear();
};

/**
 * Cuts the next part: its list, and for a WRITE the copies that bring the payload to `slab`. `local` is where the payload
 * of a READ belongs.
 */
SlabPart cutSlab(SlabTask& task, uint64_t slabBytes, uint64_t slab, SideCursor* local,
                 SlabCopies* copies);

/** Cuts the next part of a transfer that has a stream. */
SlabPart cutNext(SlabTask& task, uint64_t slabBytes);

/** The copies that put a payload in place. */
void placeSlab(uint64_t slab, uint64_t payloadBytes, SideCursor to, SlabCopies* copies);

}  // namespace kvferry
