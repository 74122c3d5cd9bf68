// What agents offer by CUDA IPC: round trips, hostile bytes, and what of it may be touched.
#include "../ipc_wire.h"

#include <cstring>
#include <random>

#include "../limits.h"
#include "../slab_wire.h"
#include "check.h"

using namespace kvferry;

namespace {

IpcFacts someFacts(uint64_t memoryCount) {
  IpcFacts facts;
  facts.process = {7, 8, 9};
  facts.device = 3;
  for (uint64_t i = 0; i < memoryCount; i++) {
    IpcMemory memory{(i + 1) << 24, uint64_t{1} << 21, {}};
    std::memset(memory.handle.bytes, static_cast<int>(i + 1), sizeof memory.handle.bytes);
    facts.memories.push_back(memory);
    facts.ranges.push_back({memory.address, memory.address + 4'096});
    facts.ranges.push_back({memory.address + 8'192, memory.address + memory.bytes});
  }
  return facts;
}

const std::vector<uint8_t> kLibrary{1, 2, 3, 4, 5};

std::vector<uint8_t> metadataOf(const IpcFacts& facts) {
  std::vector<uint8_t> metadata = kLibrary;
  appendIpcFacts(facts, &metadata);
  return metadata;
}

bool offersNothing(const IpcFacts& facts) {
  IpcFacts found;
  const std::vector<uint8_t> metadata = metadataOf(facts);
  return splitIpcFacts(metadata.data(), metadata.size(), &found) == kLibrary.size() &&
         found.isEmpty() && found.ranges.empty();
}

}  // namespace

TEST("ipc wire: what is offered comes back as it was, and stands before what is said of slabs") {
  const IpcFacts facts = someFacts(limits::kIpcMemoryCountMax);
  std::vector<uint8_t> metadata = metadataOf(facts);
  const size_t offered = metadata.size();
  SlabFacts lent;
  lent.slabBytes = 4'096;
  lent.slabCount = 1;
  appendSlabFacts(lent, &metadata);
  SlabFacts slabs;
  IpcFacts found;
  REQUIRE(splitSlabFacts(metadata.data(), metadata.size(), &slabs) == offered);
  REQUIRE(splitIpcFacts(metadata.data(), offered, &found) == kLibrary.size());
  CHECK_EQ(slabs.slabCount, 1u);
  CHECK(found.process == facts.process);
  CHECK_EQ(found.device, 3u);
  REQUIRE(found.memories.size() == facts.memories.size());
  REQUIRE(found.ranges.size() == facts.ranges.size());
  for (size_t i = 0; i < found.memories.size(); i++) {
    CHECK_EQ(found.memories[i].address, facts.memories[i].address);
    CHECK_EQ(found.memories[i].bytes, facts.memories[i].bytes);
    CHECK(std::memcmp(&found.memories[i].handle, &facts.memories[i].handle, 64) == 0);
  }
  for (size_t i = 0; i < found.ranges.size(); i++) {
    CHECK_EQ(found.ranges[i].start, facts.ranges[i].start);
    CHECK_EQ(found.ranges[i].end, facts.ranges[i].end);
  }
}

TEST("ipc wire: an agent that offers nothing says nothing, and older metadata offers nothing") {
  CHECK(metadataOf({}) == kLibrary);
  IpcFacts found = someFacts(1);
  CHECK_EQ(splitIpcFacts(kLibrary.data(), kLibrary.size(), &found), kLibrary.size());
  CHECK(found.isEmpty());
}

TEST("ipc wire: what makes no sense offers nothing") {
  CHECK(offersNothing(someFacts(limits::kIpcMemoryCountMax + 1)));
  const auto changed = [](auto change) {
    IpcFacts facts = someFacts(2);
    change(facts);
    return offersNothing(facts);
  };
  CHECK(!changed([](IpcFacts&) {}));
  CHECK(changed([](IpcFacts& facts) { facts.memories[0].bytes = 0; }));
  CHECK(changed([](IpcFacts& facts) { std::swap(facts.memories[0], facts.memories[1]); }));
  CHECK(changed([](IpcFacts& facts) { facts.memories[0].bytes = uint64_t{1} << 25; }));
  CHECK(changed([](IpcFacts& facts) { facts.memories[1].bytes = ~uint64_t{0}; }));
  CHECK(changed([](IpcFacts& facts) { facts.ranges.clear(); }));
  CHECK(changed([](IpcFacts& facts) { facts.ranges[1].end += 1; }));
  CHECK(changed([](IpcFacts& facts) { facts.ranges[0].start -= 1; }));
  CHECK(changed([](IpcFacts& facts) { facts.ranges[0].end = facts.ranges[0].start; }));
  CHECK(changed([](IpcFacts& facts) { facts.ranges[0].end = facts.ranges[1].end; }));
}

TEST("ipc wire: another version is skipped, and cut or random bytes mislead nobody") {
  std::vector<uint8_t> newer = metadataOf(someFacts(2));
  newer[newer.size() - 8] = 2;
  IpcFacts found;
  CHECK_EQ(splitIpcFacts(newer.data(), newer.size(), &found), kLibrary.size());
  CHECK(found.isEmpty());
  std::mt19937_64 random(5);
  const std::vector<uint8_t> good = metadataOf(someFacts(3));
  for (int round = 0; round < 3'000; round++) {
    std::vector<uint8_t> bytes(good.begin() + static_cast<long>(random() % good.size()), good.end());
    for (int flips = round % 4; flips > 0; flips--) bytes[random() % bytes.size()] ^= 1 << random() % 8;
    const size_t size = splitIpcFacts(bytes.data(), bytes.size(), &found);
    CHECK(size <= bytes.size());
    for (const kernels::AddressRange& range : found.ranges) {
      CHECK(found.contains(range.start, range.end - range.start));
    }
  }
}

TEST("ipc wire: only registered bytes may be touched") {
  const IpcFacts facts = someFacts(2);
  const uint64_t base = facts.memories[1].address;
  CHECK(facts.contains(base, 4'096));
  CHECK(facts.contains(base + 4'095, 1));
  CHECK(!facts.contains(base, 4'097));
  CHECK(!facts.contains(base + 4'096, 1));
  CHECK(!facts.contains(base - 1, 1));
  CHECK(!facts.contains(0, 1));
  CHECK(facts.contains(base + 8'192, (uint64_t{1} << 21) - 8'192));
  CHECK(!facts.contains(base + 8'192, ~uint64_t{0}));
}
