#include "../kernels.h"

#include <cstring>
#include <vector>

#include "check.h"

using namespace kvferry;

namespace {

std::vector<uint64_t> filled(uint64_t seed, uint64_t region, size_t words, uint64_t* sum) {
  std::vector<uint64_t> slot(words);
  uint8_t* at = reinterpret_cast<uint8_t*>(slot.data());
  kernels::fillSlots(&at, &seed, 1, region, words, sum);
  return slot;
}

uint64_t digestOf(const std::vector<uint64_t>& slot, uint64_t region) {
  uint64_t sum = 0;
  const uint8_t* at = reinterpret_cast<const uint8_t*>(slot.data());
  kernels::digestSlots(&at, 1, region, slot.size(), &sum);
  return sum;
}

}  // namespace

// The golden numbers were computed from the formulas by a separate program.

TEST("kernels: splitmix64 is the published one") {
  CHECK_EQ(kernels::splitmix64(0), 0xe220a8397b1dcdafu);
}

TEST("kernels: content equals golden words") {
  uint64_t sum = 0;
  const auto zero = filled(0, 0, 3, &sum);
  CHECK_EQ(zero[0], 0x186f4639db630115u);
  CHECK_EQ(zero[1], 0xc88e95b27a7e489cu);
  CHECK_EQ(zero[2], 0x0fe6b69870080278u);
  const auto other = filled(0x0123456789abcdef, 5, 2, &sum);
  CHECK_EQ(other[0], 0xea5a5a1dc1ed09fau);
  CHECK_EQ(other[1], 0x23c87e1c6f014473u);
}

TEST("kernels: digests equal golden numbers") {
  CHECK_EQ(digestOf({0, 0}, 0), 0x14a98e0f714cfe8bu);
  CHECK_EQ(digestOf({1}, 3), 0x3ce647ad4b2f6611u);
  uint64_t sum = 0;
  const auto first = filled(42, 0, 4, &sum);
  const auto second = filled(42, 1, 8, &sum);
  CHECK_EQ(sum, 0xd4d59bf1676cabc9u);
  CHECK_EQ(digestOf(first, 0) + digestOf(second, 1), 0xd4d59bf1676cabc9u);
}

TEST("kernels: any number of slots side by side equals one by one") {
  constexpr size_t kWords = 5;
  for (size_t count = 0; count <= 21; count++) {
    std::vector<uint64_t> memory(count * kWords + 1, 0xAAAAAAAAAAAAAAAA);
    std::vector<uint8_t*> slots(count);
    std::vector<const uint8_t*> readable(count);
    std::vector<uint64_t> seeds(count), fill(count, 7), digest(count, 7), expect(count, 7);
    for (size_t i = 0; i < count; i++) {
      seeds[i] = i * 1'000 + count;
      slots[i] = reinterpret_cast<uint8_t*>(memory.data() + (count - 1 - i) * kWords);
      readable[i] = slots[i];
    }
    kernels::fillSlots(slots.data(), seeds.data(), count, 2, kWords, fill.data());
    kernels::digestSlots(readable.data(), count, 2, kWords, digest.data());
    kernels::expectSlots(seeds.data(), count, 2, kWords, expect.data());
    CHECK_EQ(memory.back(), 0xAAAAAAAAAAAAAAAAu);
    for (size_t i = 0; i < count; i++) {
      uint64_t one = 7;
      const auto content = filled(seeds[i], 2, kWords, &one);
      CHECK(std::memcmp(content.data(), slots[i], kWords * 8) == 0);
      CHECK_EQ(fill[i], one);
      CHECK_EQ(digest[i], one);
      CHECK_EQ(expect[i], one);
    }
  }
}

TEST("kernels: one changed bit, a swap of words and another region change the digest") {
  uint64_t sum = 0;
  const auto slot = filled(9, 0, 16, &sum);
  for (size_t bit = 0; bit < 16 * 64; bit += 7) {
    auto changed = slot;
    changed[bit / 64] ^= uint64_t{1} << (bit % 64);
    CHECK(digestOf(changed, 0) != sum);
  }
  auto swapped = slot;
  std::swap(swapped[3], swapped[4]);
  CHECK(digestOf(swapped, 0) != sum);
  CHECK(digestOf(slot, 1) != sum);
}
