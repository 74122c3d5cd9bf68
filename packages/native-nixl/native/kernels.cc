#include "kernels.h"

#include <cstring>
#include <utility>

namespace kvferry::kernels {
namespace {

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "content is defined as little-endian words; this code stores them as the machine does"
#endif

constexpr uint64_t kRegionFactor = 0xD6E8FEB86659FD93;
constexpr uint64_t kHashFactor = 0x9FB21C651E98DF25;

/** Slots worked on at once: enough to hide the latency of the chain, few enough for the registers.
 */
constexpr size_t kDigestLanes = 8;
constexpr size_t kFillLanes = 4;

inline uint64_t hashStep(uint64_t hash, uint64_t word) noexcept {
  hash = (hash ^ word) * kHashFactor;
  return hash ^ (hash >> 29);
}

inline uint64_t contentBase(uint64_t seed, uint64_t regionIndex) noexcept {
  return splitmix64(seed ^ ((regionIndex + 1) * kRegionFactor));
}

inline uint64_t loadWord(const uint8_t* at) noexcept {
  uint64_t word;
  std::memcpy(&word, at, sizeof word);
  return word;
}

inline void storeWord(uint8_t* at, uint64_t word) noexcept { std::memcpy(at, &word, sizeof word); }

// The lanes are written out by fold expressions, so that every `[Lane]` is a constant and the
// arrays become registers at any optimisation level that compilers use for libraries.

template <size_t... Lane>
inline void digestLanes(const uint8_t* const* slots, uint64_t start, size_t wordCount,
                        uint64_t* sums, std::index_sequence<Lane...>) noexcept {
  const uint8_t* const at[] = {slots[Lane]...};
  uint64_t hash[] = {(static_cast<void>(Lane), start)...};
  for (size_t j = 0; j < wordCount; j++) {
    ((hash[Lane] = hashStep(hash[Lane], loadWord(at[Lane] + j * 8))), ...);
  }
  ((sums[Lane] += splitmix64(hash[Lane])), ...);
}

template <bool IsStored, size_t... Lane>
inline void contentLanes(uint8_t* const* slots, const uint64_t* seeds, uint64_t regionIndex,
                         uint64_t start, size_t wordCount, uint64_t* sums,
                         std::index_sequence<Lane...>) noexcept {
  uint64_t state[] = {contentBase(seeds[Lane], regionIndex)...};
  uint64_t hash[] = {(static_cast<void>(Lane), start)...};
  uint8_t* const at[] = {(IsStored ? slots[Lane] : nullptr)...};
  const auto step = [&](size_t lane, size_t j) {
    const uint64_t word = splitmix64(state[lane]);
    state[lane] += kGolden;
    if constexpr (IsStored) storeWord(at[lane] + j * 8, word);
    hash[lane] = hashStep(hash[lane], word);
  };
  for (size_t j = 0; j < wordCount; j++) (step(Lane, j), ...);
  static_cast<void>(at);
  ((sums[Lane] += splitmix64(hash[Lane])), ...);
}

template <bool IsStored>
void contentSlots(uint8_t* const* slots, const uint64_t* seeds, size_t count, uint64_t regionIndex,
                  size_t wordCount, uint64_t* sums) noexcept {
  const uint64_t start = splitmix64(regionIndex + 1);
  size_t i = 0;
  for (; i + kFillLanes <= count; i += kFillLanes) {
    contentLanes<IsStored>(IsStored ? slots + i : nullptr, seeds + i, regionIndex, start, wordCount,
                           sums + i, std::make_index_sequence<kFillLanes>{});
  }
  for (; i < count; i++) {
    contentLanes<IsStored>(IsStored ? slots + i : nullptr, seeds + i, regionIndex, start, wordCount,
                           sums + i, std::make_index_sequence<1>{});
  }
}

}  // namespace

void fillSlots(uint8_t* const* slots, const uint64_t* seeds, size_t count, uint64_t regionIndex,
               size_t wordCount, uint64_t* sums) noexcept {
  contentSlots<true>(slots, seeds, count, regionIndex, wordCount, sums);
}

void expectSlots(const uint64_t* seeds, size_t count, uint64_t regionIndex, size_t wordCount,
                 uint64_t* sums) noexcept {
  contentSlots<false>(nullptr, seeds, count, regionIndex, wordCount, sums);
}

void digestSlots(const uint8_t* const* slots, size_t count, uint64_t regionIndex, size_t wordCount,
                 uint64_t* sums) noexcept {
  const uint64_t start = splitmix64(regionIndex + 1);
  size_t i = 0;
  for (; i + kDigestLanes <= count; i += kDigestLanes) {
    digestLanes(slots + i, start, wordCount, sums + i, std::make_index_sequence<kDigestLanes>{});
  }
  for (; i < count; i++) {
    digestLanes(slots + i, start, wordCount, sums + i, std::make_index_sequence<1>{});
  }
}

}  // namespace kvferry::kernels
