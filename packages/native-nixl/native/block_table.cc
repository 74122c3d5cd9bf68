#include "block_table.h"

#include <algorithm>
#include <string>
#include <utility>

#include "limits.h"

namespace kvferry {
namespace {

/** "KVBT" in the order of the bytes. */
constexpr uint32_t kMagic = 0x5442564B;
constexpr size_t kHeaderBytes = 16;
constexpr size_t kRegionBytes = 40;
constexpr uint64_t kMemoryHost = 0;
constexpr uint64_t kMemoryDevice = 1;
constexpr uint64_t kMemoryUnreachable = 2;

Result badTable(std::string detail) { return Result::outOfRange("block table", std::move(detail)); }

Result checkRegion(const BlockRegion& region, size_t index) {
  const std::string where = "region " + std::to_string(index) + ": ";
  if (region.address == 0) return badTable(where + "no address");
  if (region.blockSizeBytes == 0) return badTable(where + "the block size is zero");
  if (region.blockCount == 0) return badTable(where + "no blocks");
  if (region.blockStrideBytes < region.blockSizeBytes) {
    return badTable(where + "the stride is below the block size");
  }
  if (region.blockCount > limits::kBlockCountMax) {
    return Result::overLimit("blockCountMax", region.blockCount, limits::kBlockCountMax);
  }
  uint64_t end = 0;
  const bool isWrapping =
      __builtin_mul_overflow(region.blockStrideBytes, region.blockCount - 1, &end) ||
      __builtin_add_overflow(end, region.blockSizeBytes, &end) || end > limits::kSafeIntegerMax ||
      __builtin_add_overflow(end, region.address, &end);
  return isWrapping ? badTable(where + "its addresses wrap") : Result::success();
}

/** `a` starts at or before `b`, and their spans meet: do any two of their blocks share a byte? */
bool hasSharedByte(const BlockRegion& a, const BlockRegion& b) {
  // Regions that interleave (layers of one block side by side) have one stride and fixed distances.
  if (a.blockStrideBytes != b.blockStrideBytes) return true;
  const uint64_t distance = (b.address - a.address) % a.blockStrideBytes;
  return distance < a.blockSizeBytes || a.blockStrideBytes - distance < b.blockSizeBytes;
}

Result checkOverlaps(const std::vector<BlockRegion>& regions) {
  std::vector<const BlockRegion*> sorted;
  for (const BlockRegion& region : regions) sorted.push_back(&region);
  std::sort(sorted.begin(), sorted.end(),
            [](const BlockRegion* a, const BlockRegion* b) { return a->address < b->address; });
  for (size_t i = 0; i < sorted.size(); i++) {
    const uint64_t end = sorted[i]->address + sorted[i]->spanBytes();
    for (size_t j = i + 1; j < sorted.size() && sorted[j]->address < end; j++) {
      if (hasSharedByte(*sorted[i], *sorted[j])) return badTable("blocks of two regions overlap");
    }
  }
  return Result::success();
}

void put(std::vector<uint8_t>& bytes, uint64_t value, size_t width) {
  for (size_t i = 0; i < width; i++) bytes.push_back(static_cast<uint8_t>(value >> (8 * i)));
}

uint64_t get(const uint8_t* at, size_t width) {
  uint64_t value = 0;
  for (size_t i = 0; i < width; i++) value |= uint64_t{at[i]} << (8 * i);
  return value;
}

Result invalid(std::string detail) {
  return Result::failure(Status::kMessageInvalid, "block table", std::move(detail));
}

}  // namespace

Result makeBlockTable(std::vector<BlockRegion> regions, BlockTable* table) {
  if (regions.empty()) return badTable("a table needs at least one region");
  if (regions.size() > limits::kRegionCountMax) {
    return Result::overLimit("regionCountMax", regions.size(), limits::kRegionCountMax);
  }
  uint64_t bytesPerBlock = 0;
  for (size_t i = 0; i < regions.size(); i++) {
    Result checked = checkRegion(regions[i], i);
    if (!checked.ok()) return checked;
    if (regions[i].registration >= regions.size()) return badTable("no such registration");
    if (regions[i].blockCount != regions[0].blockCount)
      return badTable("block counts of regions differ");
    // Sizes are below 2^53 and regions at most 2^10: no wrap.
    bytesPerBlock += regions[i].blockSizeBytes;
  }
  Result checked = checkOverlaps(regions);
  if (!checked.ok()) return checked;
  table->blockCount = regions[0].blockCount;
  table->bytesPerBlock = bytesPerBlock;
  table->regions = std::move(regions);
  return Result::success();
}

std::vector<uint8_t> encodeBlockTable(const BlockTable& table) {
  std::vector<uint8_t> bytes;
  bytes.reserve(kHeaderBytes + table.regions.size() * kRegionBytes);
  put(bytes, kMagic, 4);
  put(bytes, kBlockTableVersion, 2);
  const uint64_t onDevice = table.isTarget ? kMemoryDevice : kMemoryUnreachable;
  put(bytes, table.place.kind == MemoryKind::kHost ? kMemoryHost : onDevice, 2);
  put(bytes, table.regions.size(), 4);
  put(bytes, table.place.device, 4);
  for (const BlockRegion& region : table.regions) {
    put(bytes, region.address, 8);
    put(bytes, region.blockSizeBytes, 8);
    put(bytes, region.blockStrideBytes, 8);
    put(bytes, region.blockCount, 8);
    put(bytes, region.registration, 8);
  }
  return bytes;
}

Result decodeBlockTable(const uint8_t* bytes, size_t sizeBytes, BlockTable* table) {
  if (sizeBytes < kHeaderBytes || get(bytes, 4) != kMagic) return invalid("not a block table");
  if (get(bytes + 4, 2) != kBlockTableVersion) {
    return invalid("unknown version " + std::to_string(get(bytes + 4, 2)));
  }
  const uint64_t memory = get(bytes + 6, 2);
  const uint64_t device = get(bytes + 12, 4);
  if (memory > kMemoryUnreachable || (memory == kMemoryHost && device != 0)) {
    return invalid("where its memory lies");
  }
  const uint64_t count = get(bytes + 8, 4);
  if (count == 0 || count > limits::kRegionCountMax) return invalid("region count");
  if (sizeBytes != kHeaderBytes + count * kRegionBytes)
    return invalid("size and region count differ");
  std::vector<BlockRegion> regions(count);
  for (size_t i = 0; i < count; i++) {
    const uint8_t* at = bytes + kHeaderBytes + i * kRegionBytes;
    regions[i] = {get(at, 8), get(at + 8, 8), get(at + 16, 8), get(at + 24, 8), get(at + 32, 8)};
  }
  Result made = makeBlockTable(std::move(regions), table);
  table->place = {memory == kMemoryHost ? MemoryKind::kHost : MemoryKind::kDevice,
                  static_cast<uint32_t>(device)};
  table->isTarget = memory != kMemoryUnreachable;
  if (made.ok()) return made;
  return invalid(made.status == Status::kLimit ? std::string("over ") + made.limit : made.detail);
}

}  // namespace kvferry
