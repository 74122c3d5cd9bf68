#include "../block_table.h"

#include <cstring>

#include "../limits.h"
#include "check.h"

using namespace kvferry;

namespace {

Status madeOf(std::vector<BlockRegion> regions) {
  BlockTable table;
  return makeBlockTable(std::move(regions), &table).status;
}

Status decoded(const std::vector<uint8_t>& bytes) {
  BlockTable table;
  return decodeBlockTable(bytes.data(), bytes.size(), &table).status;
}

void putNumber(std::vector<uint8_t>& bytes, size_t at, uint64_t value) {
  for (size_t i = 0; i < 8; i++) bytes[at + i] = static_cast<uint8_t>(value >> (8 * i));
}

std::vector<uint8_t> goodBlob() {
  BlockTable table;
  CHECK(makeBlockTable({{4'096, 64, 128, 10, 0}, {65'536, 32, 32, 10, 1}}, &table).ok());
  return encodeBlockTable(table);
}

}  // namespace

TEST("block table: sizes that make no sense are refused") {
  CHECK(madeOf({}) == Status::kOutOfRange);
  CHECK(madeOf({{0, 64, 64, 1}}) == Status::kOutOfRange);
  CHECK(madeOf({{4'096, 0, 64, 1}}) == Status::kOutOfRange);
  CHECK(madeOf({{4'096, 64, 64, 0}}) == Status::kOutOfRange);
  CHECK(madeOf({{4'096, 64, 63, 2}}) == Status::kOutOfRange);
  CHECK(madeOf({{4'096, 64, 64, 2}, {1 << 20, 64, 64, 3}}) == Status::kOutOfRange);
  CHECK(madeOf({{4'096, 64, 64, 2, 1}}) == Status::kOutOfRange);
  CHECK(madeOf({{4'096, 64, 64, limits::kBlockCountMax + 1}}) == Status::kLimit);
  CHECK(madeOf(std::vector<BlockRegion>(limits::kRegionCountMax + 1, {4'096, 1, 1, 1})) ==
        Status::kLimit);
}

TEST("block table: addresses that wrap are refused, the last ones that don't are fine") {
  const uint64_t top = ~uint64_t{0};
  CHECK(madeOf({{top - 63, 64, 64, 1}}) == Status::kOutOfRange);
  CHECK(madeOf({{top - 64, 64, 64, 1}}) == Status::kOk);
  CHECK(madeOf({{4'096, 64, top / 2, 4}}) == Status::kOutOfRange);
  CHECK(madeOf({{4'096, top, top, 1}}) == Status::kOutOfRange);
}

TEST("block table: regions may touch and interleave, but never share a byte") {
  CHECK(madeOf({{4'096, 64, 64, 4}, {4'096 + 256, 64, 64, 4}}) == Status::kOk);
  CHECK(madeOf({{4'096, 64, 64, 4}, {4'096 + 255, 64, 64, 4}}) == Status::kOutOfRange);
  CHECK(madeOf({{4'096, 64, 128, 4}, {4'096 + 64, 64, 128, 4}}) == Status::kOk);
  CHECK(madeOf({{4'096 + 64, 64, 128, 4}, {4'096, 64, 128, 4}}) == Status::kOk);
  CHECK(madeOf({{4'096, 64, 128, 4}, {4'096 + 63, 64, 128, 4}}) == Status::kOutOfRange);
  CHECK(madeOf({{4'096, 64, 128, 4}, {4'096 + 65, 64, 128, 4}}) == Status::kOutOfRange);
  CHECK(madeOf({{4'096, 64, 128, 4}, {4'096, 64, 128, 4}}) == Status::kOutOfRange);
}

TEST("block table: export and import give the same table") {
  BlockTable table;
  const std::vector<uint8_t> blob = goodBlob();
  REQUIRE(decodeBlockTable(blob.data(), blob.size(), &table).ok());
  CHECK_EQ(table.blockCount, 10u);
  CHECK_EQ(table.bytesPerBlock, 96u);
  CHECK_EQ(table.regions[0].blockStrideBytes, 128u);
  CHECK_EQ(table.regions[1].address, 65'536u);
  CHECK_EQ(table.regions[1].registration, 1u);
  CHECK(encodeBlockTable(table) == blob);
}

TEST("block table: every cut of an export is refused, and so is a longer one") {
  std::vector<uint8_t> blob = goodBlob();
  for (size_t size = 0; size < blob.size(); size++) {
    CHECK(decoded({blob.begin(), blob.begin() + static_cast<long>(size)}) ==
          Status::kMessageInvalid);
  }
  blob.push_back(0);
  CHECK(decoded(blob) == Status::kMessageInvalid);
}

TEST("block table: hostile values in an export are refused") {
  const std::vector<uint8_t> good = goodBlob();
  const size_t first = 16;
  const auto with = [&](size_t at, uint64_t value) {
    std::vector<uint8_t> bad = good;
    putNumber(bad, at, value);
    return decoded(bad);
  };
  CHECK(decoded(good) == Status::kOk);
  for (const uint64_t value : {uint64_t{0}, ~uint64_t{0}, uint64_t{1} << 63}) {
    CHECK(with(first, value == uint64_t{1} << 63 ? 0 : value) == Status::kMessageInvalid);
    CHECK(with(first + 8, value) == Status::kMessageInvalid);
    CHECK(with(first + 16, value) == Status::kMessageInvalid);
    CHECK(with(first + 24, value) == Status::kMessageInvalid);
  }
  CHECK(with(first + 32, 2) == Status::kMessageInvalid);
  for (size_t at = 0; at < 16; at++) {
    for (const uint8_t flip : {1, 128}) {
      std::vector<uint8_t> bad = good;
      bad[at] ^= flip;
      // The one flip that is a table again: the same blocks on GPU 0.
      const bool isGpu = at == 6 && flip == 1;
      CHECK(decoded(bad) == (isGpu ? Status::kOk : Status::kMessageInvalid));
    }
  }
}

TEST("block table: where its memory lies, and whether peers reach it, survive an export") {
  BlockTable table;
  REQUIRE(decodeBlockTable(goodBlob().data(), goodBlob().size(), &table).ok());
  CHECK(table.place == MemoryPlace{} && table.isTarget);
  table.place = {MemoryKind::kDevice, 5};
  for (const bool isTarget : {true, false}) {
    table.isTarget = isTarget;
    const std::vector<uint8_t> bytes = encodeBlockTable(table);
    BlockTable found;
    REQUIRE(decodeBlockTable(bytes.data(), bytes.size(), &found).ok());
    CHECK(found.place == table.place && found.isTarget == isTarget);
  }
}

TEST("block table: random bytes never become a table that wraps") {
  check::Random random(3);
  int accepted = 0;
  for (int i = 0; i < 20'000; i++) {
    std::vector<uint8_t> bytes = goodBlob();
    const uint64_t changes = random.between(1, 6);
    for (uint64_t change = 0; change < changes; change++) {
      bytes[random.between(12, bytes.size() - 1)] = static_cast<uint8_t>(random.next());
    }
    BlockTable table;
    if (!decodeBlockTable(bytes.data(), bytes.size(), &table).ok()) continue;
    accepted += 1;
    for (const BlockRegion& region : table.regions) {
      CHECK(region.blockSizeBytes > 0);
      CHECK(region.address + region.spanBytes() > region.address);
    }
  }
  CHECK(accepted > 100);
}
