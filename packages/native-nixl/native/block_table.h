// Where blocks lie in memory, own or a peer's, and its form on the wire. Pure values: whoever made
// one through `makeBlockTable` or `decodeBlockTable` may compute any address in it without a check,
// because nothing in it wraps, is empty, or overlaps. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "memory.h"
#include "status.h"

namespace kvferry {

struct BlockRegion {
  uint64_t address = 0;
  uint64_t blockSizeBytes = 0;
  uint64_t blockStrideBytes = 0;
  uint64_t blockCount = 0;
  /**
   * Which of the owner's registrations it lies in, as a number below the table's region count. The
   * library refuses a descriptor that spans two, even where they touch.
   */
  uint64_t registration = 0;

  /** From the start of block 0 to the end of the last block. */
  uint64_t spanBytes() const noexcept {
    return (blockCount - 1) * blockStrideBytes + blockSizeBytes;
  }
};

struct BlockTable {
  std::vector<BlockRegion> regions;
  /** The same in all regions. */
  uint64_t blockCount = 0;
  /** Sum of block sizes over regions: what one block id stands for. */
  uint64_t bytesPerBlock = 0;
  /** Of all regions. */
  MemoryPlace place;
  /** Peers can reach it through the library; otherwise only through slabs. */
  bool isTarget = true;
};

/**
 * kOutOfRange: no region, zero sizes or counts, a stride below its size, counts that differ,
 * addresses that wrap, blocks that overlap. kLimit: regionCountMax, blockCountMax.
 */
Result makeBlockTable(std::vector<BlockRegion> regions, BlockTable* table);

/**
 * Little-endian: u32 magic, u16 version, u16 memory (0 host, 1 GPU, 2 GPU and no target), u32 region
 * count, u32 number of the GPU; then per region u64 address, block size, stride, block count,
 * registration.
 */
std::vector<uint8_t> encodeBlockTable(const BlockTable& table);

/** kMessageInvalid for anything that `encodeBlockTable` wouldn't write. */
Result decodeBlockTable(const uint8_t* bytes, size_t sizeBytes, BlockTable* table);

/**
 * Version history: 1, first. GPU memory came without a new one: whoever doesn't know it refuses
 * its tables, and reads those of host memory as before.
 */
inline constexpr uint16_t kBlockTableVersion = 1;

}  // namespace kvferry
