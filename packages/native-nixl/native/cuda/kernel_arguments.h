// What our kernels take: one struct each, by value. Read by three compilers: that of the GPU, that of the
// host which fills them in, and that of the fake driver, which runs the kernels on the host.
#pragma once

#ifdef __CUDACC_RTC__
using uint8_t = unsigned char;
using uint32_t = unsigned int;
using uint64_t = unsigned long long;
#else
#include <cstdint>
#endif

namespace kvferry {
namespace kernels {

/** Where one region's blocks lie. */
struct DeviceRegion {
  uint64_t address;
  uint64_t strideBytes;
  uint64_t blockBytes;
};

/** For `fill` and `digest`. Arrays lie in memory of the GPU; `sums` are zero. */
struct SlotArguments {
  const DeviceRegion* regions;
  const uint32_t* blockIds;
  const uint32_t* offsets;
  const uint64_t* seeds;
  uint64_t* sums;
  uint64_t regionCount;
  uint64_t slotCount;
  uint64_t blockTokens;
};

struct CopyPiece {
  uint64_t to;
  uint64_t from;
  uint64_t bytes;
};

/** Pieces of any length and alignment; none shares a byte with another's target. */
struct PieceArguments {
  const CopyPiece* pieces;
  uint64_t pieceCount;
  /** A piece is cut into so many parts of `partBytes`, a multiple of 16: enough for the longest. */
  uint64_t partsPerPiece;
  uint64_t partBytes;
};

/** Tokens in a row, in blocks of a region: slot `firstToken + i` of the listed blocks. */
struct DeviceRun {
  const DeviceRegion* regions;
  const uint32_t* blockIds;
  uint64_t blockTokens;
  uint64_t firstToken;
  /** 1: within a block each head's tokens lie together. */
  uint64_t isHeadMajor;
};

struct RelayoutArguments {
  DeviceRun from;
  DeviceRun to;
  uint64_t regionCount;
  uint64_t headCount;
  uint64_t tokenCount;
};

}  // namespace kernels
}  // namespace kvferry
