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

/**
 * Blocks of one size as the stream of bytes that they stand for: region after region, in each the listed blocks;
 * `isBlockMajor` (1): block after block, in each its regions.
 */
struct BlockStream {
  const DeviceRegion* regions;
  const uint32_t* blockIds;
  uint64_t regionCount;
  uint64_t idCount;
  uint64_t blockBytes;
  uint64_t isBlockMajor;
};

/**
 * Bytes `[start, start + bytes)` of a stream, to (`isGather` 1) or from memory where they lie packed; and, unless `list`
 * is 0, the list of pieces of the same bytes of another stream (slab_wire.h), which is written there.
 */
struct PackArguments {
  BlockStream blocks;
  BlockStream listed;
  uint64_t start;
  uint64_t bytes;
  /** 0: nothing is moved. */
  uint64_t packed;
  uint64_t isGather;
  uint64_t list;
  uint64_t partBytes;
};

/** `bytes` of one stream to the same bytes of another, whose blocks may have another size. */
struct MoveArguments {
  BlockStream to;
  BlockStream from;
  uint64_t bytes;
  /** What a warp takes at a time, a multiple of 16. */
  uint64_t partBytes;
};

/** Memory that may be touched: `[start, end)`, by `start`; `end` is the furthest of all that start no later. */
struct AddressRange {
  uint64_t start;
  uint64_t end;
};

/**
 * What a list says of a slab's payload, done (`isScatter` 1: payload to pieces) where every piece lies in a range. In two
 * launches: the first (`isCheck` 1) moves nothing, the second nothing if the first has said in `answer` what is wrong.
 * The borrower can write to the list all the while, so the second looks at each piece again.
 */
struct ListedArguments {
  const AddressRange* ranges;
  uint64_t rangeCount;
  uint64_t payload;
  uint64_t payloadBytes;
  uint64_t list;
  uint64_t listBytes;
  uint64_t runCount;
  uint64_t isScatter;
  uint64_t isCheck;
  uint64_t partBytes;
  /** Stays what it is unless something is wrong; page-locked memory of the host. */
  uint64_t* answer;
};

inline constexpr uint64_t kListMalformed = 2;
inline constexpr uint64_t kListNotRegistered = 3;

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
