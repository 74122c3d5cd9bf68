// The KV kernels of the GPU. They answer bit for bit what native/kernels.h and copy_task.h answer on the host.
// Compiled by compile.mjs; the fake driver compiles the same text for the host, thread after thread,
// so nothing here may depend on threads that run side by side (no barriers, no shared memory).
#include "kernel_arguments.h"

namespace kvferry {
namespace kernels {
namespace {

constexpr uint64_t kWarp = 32;

#ifdef __CUDACC_RTC__
using Vector = ulonglong2;
using Word = uint32_t;
__device__ __forceinline__ void addTo(uint64_t* sum, uint64_t value) { atomicAdd(sum, value); }
#endif

__device__ inline uint64_t mixWord(uint64_t x) {
  x += 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

__device__ inline uint64_t hashStep(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0x9FB21C651E98DF25ull;
  return hash ^ (hash >> 29);
}

__device__ inline uint64_t loadWord(uint64_t at) {
  if (at % 8 == 0) return *reinterpret_cast<const uint64_t*>(at);
  uint64_t word = 0;
  for (uint64_t i = 0; i < 8; i++) {
    word |= static_cast<uint64_t>(*reinterpret_cast<const uint8_t*>(at + i)) << (8 * i);
  }
  return word;
}

__device__ inline void storeWord(uint64_t at, uint64_t word) {
  if (at % 8 == 0) {
    *reinterpret_cast<uint64_t*>(at) = word;
    return;
  }
  for (uint64_t i = 0; i < 8; i++) {
    *reinterpret_cast<uint8_t*>(at + i) = static_cast<uint8_t>(word >> (8 * i));
  }
}

struct Slot {
  uint64_t address;
  uint64_t words;
  uint64_t region;
  uint64_t index;
};

/** Neighbouring threads have neighbouring slots of one region. */
__device__ inline Slot slotOf(const SlotArguments& a, uint64_t unit) {
  const uint64_t region = unit / a.slotCount;
  const uint64_t index = unit % a.slotCount;
  const DeviceRegion& where = a.regions[region];
  const uint64_t bytes = where.blockBytes / a.blockTokens;
  return {where.address + a.blockIds[index] * where.strideBytes + a.offsets[index] * bytes,
          bytes / 8, region, index};
}

/** `count` elements, shared out over the threads of a warp; four loads are under way at once. */
template <class Element>
__device__ inline void moveElements(uint64_t to, uint64_t from, uint64_t count, uint64_t lane) {
  auto* const target = reinterpret_cast<Element*>(to);
  const auto* const source = reinterpret_cast<const Element*>(from);
  uint64_t i = lane;
  for (; i + 3 * kWarp < count; i += 4 * kWarp) {
    const Element first = source[i];
    const Element second = source[i + kWarp];
    const Element third = source[i + 2 * kWarp];
    const Element fourth = source[i + 3 * kWarp];
    target[i] = first;
    target[i + kWarp] = second;
    target[i + 2 * kWarp] = third;
    target[i + 3 * kWarp] = fourth;
  }
  for (; i < count; i += kWarp) target[i] = source[i];
}

/** Bytes before, elements as wide as the two addresses allow, bytes behind. */
template <class Element>
__device__ inline void moveAligned(uint64_t to, uint64_t from, uint64_t bytes, uint64_t lane) {
  const uint64_t over = to % sizeof(Element);
  uint64_t head = over == 0 ? 0 : sizeof(Element) - over;
  if (head > bytes) head = bytes;
  const uint64_t count = (bytes - head) / sizeof(Element);
  const uint64_t end = head + count * sizeof(Element);
  moveElements<uint8_t>(to, from, head, lane);
  moveElements<Element>(to + head, from + head, count, lane);
  moveElements<uint8_t>(to + end, from + end, bytes - end, lane);
}

/** One warp's work. */
__device__ inline void moveBytes(uint64_t to, uint64_t from, uint64_t bytes, uint64_t lane) {
  if ((to - from) % sizeof(Vector) == 0) {
    moveAligned<Vector>(to, from, bytes, lane);
  } else if ((to - from) % sizeof(Word) == 0) {
    moveAligned<Word>(to, from, bytes, lane);
  } else {
    moveElements<uint8_t>(to, from, bytes, lane);
  }
}

/** Of a block of a stream, by its place there. */
__device__ inline uint64_t blockAddress(const BlockStream& stream, uint64_t place) {
  const uint64_t inner = stream.isBlockMajor != 0 ? stream.regionCount : stream.idCount;
  const uint64_t outer = place / inner;
  const uint64_t rest = place - outer * inner;
  const DeviceRegion& where = stream.regions[stream.isBlockMajor != 0 ? rest : outer];
  return where.address + stream.blockIds[stream.isBlockMajor != 0 ? outer : rest] * where.strideBytes;
}

/** Once: another process can write there, and what was checked must be what is used. */
__device__ inline uint64_t readOnce(uint64_t at) {
  return *reinterpret_cast<const volatile uint64_t*>(at);
}

/** Whether a piece lies in one of the ranges. */
__device__ inline bool isWithin(const ListedArguments& a, uint64_t address, uint64_t bytes) {
  uint64_t low = 0;
  uint64_t high = a.rangeCount;
  while (low < high) {
    const uint64_t middle = (low + high) / 2;
    if (a.ranges[middle].start <= address) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (low == 0) return false;
  const uint64_t end = a.ranges[low - 1].end;
  return address < end && bytes <= end - address;
}

__device__ inline void fail(const ListedArguments& a, uint64_t reason) {
  *static_cast<volatile uint64_t*>(a.answer) = reason;
}

/** Part of a list: a run of `count` pieces of `bytes` each, the blocks from `place` on; the first starts `offset` within. */
__device__ inline uint64_t writeRun(const PackArguments& a, uint64_t at, uint64_t bytes, uint64_t count,
                                    uint64_t place, uint64_t offset) {
  if (bytes == 0 || count == 0) return at;
  const uint64_t step = static_cast<uint64_t>(gridDim.x) * blockDim.x;
  const uint64_t first = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  auto* const words = reinterpret_cast<uint64_t*>(at);
  if (first == 0) {
    words[0] = bytes;
    words[1] = count;
  }
  for (uint64_t i = first; i < count; i += step) {
    words[2 + i] = blockAddress(a.listed, place + i) + offset;
  }
  return at + 16 + count * 8;
}

/** Of one head of one token. */
__device__ inline uint64_t rowAddress(const DeviceRun& run, uint64_t region, uint64_t token,
                                      uint64_t head, uint64_t heads) {
  const DeviceRegion& where = run.regions[region];
  const uint64_t at = run.firstToken + token;
  const uint64_t slot = at % run.blockTokens;
  const uint64_t row = run.isHeadMajor != 0 ? head * run.blockTokens + slot : slot * heads + head;
  const uint64_t rowBytes = where.blockBytes / run.blockTokens / heads;
  return where.address + run.blockIds[at / run.blockTokens] * where.strideBytes + row * rowBytes;
}

}  // namespace

extern "C" __global__ void kvferry_fill(const SlotArguments a) {
  const uint64_t step = static_cast<uint64_t>(gridDim.x) * blockDim.x;
  const uint64_t first = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (uint64_t unit = first; unit < a.slotCount * a.regionCount; unit += step) {
    const Slot slot = slotOf(a, unit);
    uint64_t state = mixWord(a.seeds[slot.index] ^ ((slot.region + 1) * 0xD6E8FEB86659FD93ull));
    uint64_t hash = mixWord(slot.region + 1);
    for (uint64_t i = 0; i < slot.words; i++) {
      const uint64_t word = mixWord(state);
      state += 0x9E3779B97F4A7C15ull;
      storeWord(slot.address + i * 8, word);
      hash = hashStep(hash, word);
    }
    addTo(a.sums + slot.index, mixWord(hash));
  }
}

extern "C" __global__ void kvferry_digest(const SlotArguments a) {
  const uint64_t step = static_cast<uint64_t>(gridDim.x) * blockDim.x;
  const uint64_t first = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (uint64_t unit = first; unit < a.slotCount * a.regionCount; unit += step) {
    const Slot slot = slotOf(a, unit);
    uint64_t hash = mixWord(slot.region + 1);
    for (uint64_t i = 0; i < slot.words; i++) hash = hashStep(hash, loadWord(slot.address + i * 8));
    addTo(a.sums + slot.index, mixWord(hash));
  }
}

extern "C" __global__ void __launch_bounds__(256) kvferry_copy_pieces(const PieceArguments a) {
  const uint64_t warps = static_cast<uint64_t>(gridDim.x) * (blockDim.x / kWarp);
  const uint64_t first = static_cast<uint64_t>(blockIdx.x) * (blockDim.x / kWarp) + threadIdx.x / kWarp;
  const uint64_t lane = threadIdx.x % kWarp;
  for (uint64_t unit = first; unit < a.pieceCount * a.partsPerPiece; unit += warps) {
    const CopyPiece piece = a.pieces[unit / a.partsPerPiece];
    const uint64_t start = unit % a.partsPerPiece * a.partBytes;
    if (start >= piece.bytes) continue;
    const uint64_t left = piece.bytes - start;
    moveBytes(piece.to + start, piece.from + start, left < a.partBytes ? left : a.partBytes, lane);
  }
}

extern "C" __global__ void __launch_bounds__(256) kvferry_pack(const PackArguments a) {
  const uint64_t warps = static_cast<uint64_t>(gridDim.x) * (blockDim.x / kWarp);
  const uint64_t first = static_cast<uint64_t>(blockIdx.x) * (blockDim.x / kWarp) + threadIdx.x / kWarp;
  const uint64_t lane = threadIdx.x % kWarp;
  const uint64_t end = a.start + a.bytes;
  if (a.packed != 0) {
    const uint64_t size = a.blocks.blockBytes;
    const uint64_t parts = (size + a.partBytes - 1) / a.partBytes;
    const uint64_t firstPlace = a.start / size;
    const uint64_t lastPlace = (end - 1) / size;
    // Of blocks that are longer than a slab only the parts that it has.
    const uint64_t firstUnit = (a.start - firstPlace * size) / a.partBytes;
    const uint64_t lastUnit =
        (lastPlace - firstPlace) * parts + (end - 1 - lastPlace * size) / a.partBytes;
    for (uint64_t unit = firstUnit + first; unit <= lastUnit; unit += warps) {
      const uint64_t ahead = unit / parts;
      const uint64_t place = firstPlace + ahead;
      const uint64_t blockStart = place * size;
      uint64_t from = blockStart + (unit - ahead * parts) * a.partBytes;
      uint64_t to = from + a.partBytes;
      if (to > blockStart + size) to = blockStart + size;
      if (from < a.start) from = a.start;
      if (to > end) to = end;
      if (from >= to) continue;
      const uint64_t block = blockAddress(a.blocks, place) + (from - blockStart);
      const uint64_t packed = a.packed + (from - a.start);
      moveBytes(a.isGather != 0 ? packed : block, a.isGather != 0 ? block : packed, to - from, lane);
    }
  }
  if (a.list == 0) return;
  const uint64_t size = a.listed.blockBytes;
  const uint64_t place = a.start / size;
  const uint64_t offset = a.start - place * size;
  uint64_t head = offset == 0 ? 0 : size - offset;
  if (head > a.bytes) head = a.bytes;
  const uint64_t count = (a.bytes - head) / size;
  const uint64_t tail = a.bytes - head - count * size;
  const uint64_t whole = head > 0 ? place + 1 : place;
  uint64_t at = writeRun(a, a.list, head, 1, place, offset);
  at = writeRun(a, at, size, count, whole, 0);
  writeRun(a, at, tail, 1, whole + count, 0);
}

extern "C" __global__ void __launch_bounds__(256) kvferry_move(const MoveArguments a) {
  const uint64_t warps = static_cast<uint64_t>(gridDim.x) * (blockDim.x / kWarp);
  const uint64_t first = static_cast<uint64_t>(blockIdx.x) * (blockDim.x / kWarp) + threadIdx.x / kWarp;
  const uint64_t lane = threadIdx.x % kWarp;
  const uint64_t parts = (a.bytes + a.partBytes - 1) / a.partBytes;
  for (uint64_t part = first; part < parts; part += warps) {
    const uint64_t start = part * a.partBytes;
    uint64_t left = a.bytes - start < a.partBytes ? a.bytes - start : a.partBytes;
    uint64_t toPlace = start / a.to.blockBytes;
    uint64_t toOffset = start - toPlace * a.to.blockBytes;
    uint64_t fromPlace = start / a.from.blockBytes;
    uint64_t fromOffset = start - fromPlace * a.from.blockBytes;
    // A part may hold the ends and the starts of several blocks of either side.
    while (left > 0) {
      uint64_t bytes = left;
      if (bytes > a.to.blockBytes - toOffset) bytes = a.to.blockBytes - toOffset;
      if (bytes > a.from.blockBytes - fromOffset) bytes = a.from.blockBytes - fromOffset;
      moveBytes(blockAddress(a.to, toPlace) + toOffset, blockAddress(a.from, fromPlace) + fromOffset,
                bytes, lane);
      left -= bytes;
      toOffset += bytes;
      fromOffset += bytes;
      if (toOffset == a.to.blockBytes) {
        toOffset = 0;
        toPlace += 1;
      }
      if (fromOffset == a.from.blockBytes) {
        fromOffset = 0;
        fromPlace += 1;
      }
    }
  }
}

extern "C" __global__ void __launch_bounds__(256) kvferry_move_listed(const ListedArguments a) {
  const uint64_t warps = static_cast<uint64_t>(gridDim.x) * (blockDim.x / kWarp);
  const uint64_t first = static_cast<uint64_t>(blockIdx.x) * (blockDim.x / kWarp) + threadIdx.x / kWarp;
  const uint64_t lane = threadIdx.x % kWarp;
  if (a.isCheck == 0 && readOnce(reinterpret_cast<uint64_t>(a.answer)) != 0) return;
  const uint64_t end = a.list + a.listBytes;
  uint64_t at = a.list;
  uint64_t payload = a.payload;
  uint64_t left = a.payloadBytes;
  for (uint64_t run = 0; run < a.runCount; run++) {
    if (end - at < 16) return fail(a, kListMalformed);
    const uint64_t bytes = readOnce(at);
    const uint64_t count = readOnce(at + 8);
    at += 16;
    if (bytes == 0 || count == 0 || count > (end - at) / 8 || bytes > left / count) {
      return fail(a, kListMalformed);
    }
    // A piece for each thread.
    for (uint64_t index = first * kWarp + lane; a.isCheck != 0 && index < count; index += warps * kWarp) {
      if (!isWithin(a, readOnce(at + index * 8), bytes)) fail(a, kListNotRegistered);
    }
    const uint64_t parts = a.isCheck != 0 ? 0 : (bytes + a.partBytes - 1) / a.partBytes;
    for (uint64_t unit = first; unit < count * parts; unit += warps) {
      const uint64_t index = unit / parts;
      const uint64_t address = readOnce(at + index * 8);
      if (!isWithin(a, address, bytes)) {
        fail(a, kListNotRegistered);
        continue;
      }
      const uint64_t start = (unit - index * parts) * a.partBytes;
      const uint64_t rest = bytes - start;
      const uint64_t piece = address + start;
      const uint64_t packed = payload + index * bytes + start;
      moveBytes(a.isScatter != 0 ? piece : packed, a.isScatter != 0 ? packed : piece,
                rest < a.partBytes ? rest : a.partBytes, lane);
    }
    at += count * 8;
    payload += count * bytes;
    left -= count * bytes;
  }
  if (left != 0 || at != end) fail(a, kListMalformed);
}

extern "C" __global__ void __launch_bounds__(256) kvferry_relayout(const RelayoutArguments a) {
  const uint64_t warps = static_cast<uint64_t>(gridDim.x) * (blockDim.x / kWarp);
  const uint64_t first = static_cast<uint64_t>(blockIdx.x) * (blockDim.x / kWarp) + threadIdx.x / kWarp;
  const uint64_t lane = threadIdx.x % kWarp;
  const uint64_t rows = a.regionCount * a.tokenCount * a.headCount;
  for (uint64_t unit = first; unit < rows; unit += warps) {
    const uint64_t head = unit % a.headCount;
    const uint64_t token = unit / a.headCount % a.tokenCount;
    const uint64_t region = unit / a.headCount / a.tokenCount;
    const uint64_t bytes = a.to.regions[region].blockBytes / a.to.blockTokens / a.headCount;
    moveBytes(rowAddress(a.to, region, token, head, a.headCount),
              rowAddress(a.from, region, token, head, a.headCount), bytes, lane);
  }
}

}  // namespace kernels
}  // namespace kvferry
