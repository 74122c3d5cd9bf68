// Seeded content of token slots and its digest: pure functions over bytes, bit-identical with the
// in-memory agent's of `connector-api/testing`. Any thread; no memory is owned here.
//
//   splitmix64(x): x += G; z = x; z = (z ^ z >> 30) * A; z = (z ^ z >> 27) * B; z ^ z >> 31
//   content of a slot in region r: base = splitmix64(seed ^ (r + 1) * R); word j = splitmix64(base
//   + j * G) slotHash: h = splitmix64(r + 1); for each word w: h = (h ^ w) * M; h ^= h >> 29; then
//   splitmix64(h) digest of a slot = sum over regions of slotHash, mod 2^64
//
// The hash of one slot is a chain of dependent multiplications. Several slots are therefore worked
// on side by side, which is where the speed comes from.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kvferry::kernels {

inline constexpr uint64_t kGolden = 0x9E3779B97F4A7C15;

constexpr uint64_t splitmix64(uint64_t x) noexcept {
  x += kGolden;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

/** Writes the content of `seeds[i]` to `slots[i]` (`wordCount` words) and adds its hash to
 * `sums[i]`. */
void fillSlots(uint8_t* const* slots, const uint64_t* seeds, size_t count, uint64_t regionIndex,
               size_t wordCount, uint64_t* sums) noexcept;

/** Adds the hash of the bytes at `slots[i]` to `sums[i]`. */
void digestSlots(const uint8_t* const* slots, size_t count, uint64_t regionIndex, size_t wordCount,
                 uint64_t* sums) noexcept;

/** Adds to `sums[i]` what `digestSlots` would after `fillSlots`, without memory. */
void expectSlots(const uint64_t* seeds, size_t count, uint64_t regionIndex, size_t wordCount,
                 uint64_t* sums) noexcept;

}  // namespace kvferry::kernels
