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
