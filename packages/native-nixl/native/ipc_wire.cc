#include "ipc_wire.h"

#include <algorithm>

#include "limits.h"
#include "wire_bytes.h"

namespace kvferry {
namespace {

constexpr uint32_t kMagic = 0x5049564B;  // "KVIP"
/** Version history: 1, first. Whoever doesn't know a version skips `bodyBytes`, and has no path. */
constexpr uint32_t kVersion = 1;
constexpr size_t kMemoryBytes = 2 * 8 + sizeof(CudaIpcHandle);
constexpr size_t kRangeBytes = 2 * 8;
/** Process, GPU and counts, behind the lists. */
constexpr size_t kFixedBytes = 3 * 8 + 3 * 4;
/** Size of all before it, version, magic. */
constexpr size_t kTailBytes = 3 * 4;

uint64_t endOf(const IpcMemory& memory) noexcept { return memory.address + memory.bytes; }

bool isPlausible(const IpcFacts& facts) {
  uint64_t last = 0;
  for (const IpcMemory& memory : facts.memories) {
    uint64_t end = 0;
    if (memory.bytes == 0 || memory.address < last ||
        __builtin_add_overflow(memory.address, memory.bytes, &end)) {
      return false;
    }
    last = end;
  }
  last = 0;
  for (const kernels::AddressRange& range : facts.ranges) {
    const bool isWithin =
        std::any_of(facts.memories.begin(), facts.memories.end(), [&](const IpcMemory& memory) {
          return range.start >= memory.address && range.end <= endOf(memory);
        });
    if (range.start >= range.end || range.start < last || !isWithin) return false;
    last = range.end;
  }
  return !facts.ranges.empty();
}

bool decodeBody(const uint8_t* body, size_t bodyBytes, IpcFacts* facts) {
  if (bodyBytes < kFixedBytes) return false;
  const uint8_t* from = body + bodyBytes - kFixedBytes;
  for (uint64_t* value : {&facts->process.machine, &facts->process.pid, &facts->process.startTime}) {
    *value = getField<uint64_t>(&from);
  }
  facts->device = getField<uint32_t>(&from);
  const uint64_t memoryCount = getField<uint32_t>(&from);
  const uint64_t rangeCount = getField<uint32_t>(&from);
  if (memoryCount == 0 || memoryCount > limits::kIpcMemoryCountMax ||
      rangeCount > limits::kRegionCountMax ||
      bodyBytes != memoryCount * kMemoryBytes + rangeCount * kRangeBytes + kFixedBytes) {
    return false;
  }
  from = body;
  facts->memories.resize(memoryCount);
  for (IpcMemory& memory : facts->memories) {
    memory.address = getField<uint64_t>(&from);
    memory.bytes = getField<uint64_t>(&from);
    memory.handle = getField<CudaIpcHandle>(&from);
  }
  facts->ranges.resize(rangeCount);
  for (kernels::AddressRange& range : facts->ranges) {
    range.start = getField<uint64_t>(&from);
    range.end = getField<uint64_t>(&from);
  }
  return isPlausible(*facts);
}

}  // namespace

bool IpcFacts::contains(uint64_t address, uint64_t bytes) const noexcept {
  const auto next = std::upper_bound(
      ranges.begin(), ranges.end(), address,
      [](uint64_t value, const kernels::AddressRange& range) { return value < range.start; });
  if (next == ranges.begin()) return false;
  const kernels::AddressRange& range = *(next - 1);
  return address < range.end && bytes <= range.end - address;
}

void appendIpcFacts(const IpcFacts& facts, std::vector<uint8_t>* metadata) {
  if (facts.isEmpty()) return;
  const size_t bodyBytes =
      facts.memories.size() * kMemoryBytes + facts.ranges.size() * kRangeBytes + kFixedBytes;
  const size_t start = metadata->size();
  metadata->resize(start + bodyBytes + kTailBytes);
  uint8_t* to = metadata->data() + start;
  for (const IpcMemory& memory : facts.memories) {
    putField(&to, memory.address);
    putField(&to, memory.bytes);
    putField(&to, memory.handle);
  }
  for (const kernels::AddressRange& range : facts.ranges) {
    putField(&to, range.start);
    putField(&to, range.end);
  }
  for (const uint64_t value : {facts.process.machine, facts.process.pid, facts.process.startTime}) {
    putField(&to, value);
  }
  putField(&to, facts.device);
  putField(&to, static_cast<uint32_t>(facts.memories.size()));
  putField(&to, static_cast<uint32_t>(facts.ranges.size()));
  putField(&to, static_cast<uint32_t>(bodyBytes));
  putField(&to, kVersion);
  putField(&to, kMagic);
}

size_t splitIpcFacts(const uint8_t* metadata, size_t sizeBytes, IpcFacts* facts) {
  *facts = {};
  if (sizeBytes < kTailBytes) return sizeBytes;
  const uint8_t* from = metadata + sizeBytes - kTailBytes;
  const uint64_t bodyBytes = getField<uint32_t>(&from);
  const auto version = getField<uint32_t>(&from);
  if (getField<uint32_t>(&from) != kMagic || bodyBytes > sizeBytes - kTailBytes) return sizeBytes;
  const size_t ownSize = sizeBytes - kTailBytes - bodyBytes;
  IpcFacts found;
  if (version == kVersion && decodeBody(metadata + ownSize, bodyBytes, &found)) {
    *facts = std::move(found);
  }
  return ownSize;
}

}  // namespace kvferry
