// Copies of blocks and tokens through the pool: many batches over several threads, and what is
// refused.
#include "../copy_task.h"

#include <chrono>
#include <cstring>
#include <functional>

#include "../kernel_pool.h"
#include "agent_fixture.h"

using namespace fixture;

namespace {

constexpr uint64_t kBlocks = 512;
constexpr uint64_t kBlockBytes = 4'096;
constexpr uint64_t kRegionBytes = kBlocks * kBlockBytes;

void runTask(KernelPool& pool, TestSink& sink, std::unique_ptr<KernelTask> task) {
  uint64_t ticket = 0;
  REQUIRE(pool.submit(std::move(task), &ticket).ok());
  std::vector<KernelCompletion> done;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (done.empty()) {
    REQUIRE(sink.waitUntil(end));
    pool.drain(&done);
  }
  CHECK(done[0].digests.empty());
}

/** Byte i of the memory is a hash of i and `salt`. */
std::shared_ptr<HostMemory> filled(uint64_t sizeBytes, uint64_t salt) {
  const auto memory = allocate(sizeBytes);
  for (uint64_t i = 0; i < sizeBytes; i++) {
    memory->data()[i] = static_cast<uint8_t>((i * 0x9E3779B97F4A7C15 + salt) >> 56);
  }
  return memory;
}

std::vector<KernelRegion> twoRegions(const std::shared_ptr<HostMemory>& memory) {
  return {{memory, 0, kBlockBytes, kBlockBytes, kBlocks},
          {memory, kRegionBytes, kBlockBytes, kBlockBytes, kBlocks}};
}

std::vector<uint32_t> everyThird() {
  std::vector<uint32_t> ids;
  for (uint32_t i = 0; i < kBlocks; i++) ids.push_back(i * 3 % kBlocks);
  return ids;
}

/** Tokens of 64 bytes, 4 heads of 16. */
TokenRun run(const std::shared_ptr<HostMemory>& memory, uint64_t blockTokens, bool isHeadMajor) {
  const uint64_t size = blockTokens * 64;
  TokenRun made;
  made.blockTokens = blockTokens;
  made.isHeadMajor = isHeadMajor;
  made.regions = {{memory, 0, size, size, memory->sizeBytes() / size}};
  for (uint32_t i = 0; i < memory->sizeBytes() / size; i++) made.blockIds.push_back(i);
  return made;
}

}  // namespace

TEST("copy task: gather and scatter over several threads are inverse") {
  TestSink sink;
  const auto pool = KernelPool::create(3, sink);
  const auto source = filled(2 * kRegionBytes, 1);
  const auto slab = allocate(2 * kRegionBytes + 5);
  std::unique_ptr<KernelTask> task;
  REQUIRE(makeBlockCopyTask({true, twoRegions(source), everyThird(), slab, 5}, &task).ok());
  CHECK(task->batchCount() > 8);
  CHECK(source->pinCount() > 0);
  runTask(*pool, sink, std::move(task));
  CHECK_EQ(source->pinCount(), 0u);
  for (uint64_t i = 0; i < kBlocks; i++) {
    const uint8_t* packed = slab->data() + 5 + i * 2 * kBlockBytes;
    const uint8_t* block = source->data() + (i * 3 % kBlocks) * kBlockBytes;
    CHECK(std::memcmp(packed, block, kBlockBytes) == 0);
    CHECK(std::memcmp(packed + kBlockBytes, block + kRegionBytes, kBlockBytes) == 0);
  }
  const auto target = allocate(2 * kRegionBytes);
  REQUIRE(makeBlockCopyTask({false, twoRegions(target), everyThird(), slab, 5}, &task).ok());
  runTask(*pool, sink, std::move(task));
  CHECK(std::memcmp(target->data(), source->data(), 2 * kRegionBytes) == 0);
}

TEST("copy task: relayout there and back, in place, over several threads") {
  TestSink sink;
  const auto pool = KernelPool::create(3, sink);
  const auto source = filled(kRegionBytes, 2);
  const auto target = allocate(kRegionBytes);
  const uint64_t tokens = kRegionBytes / 64;
  const auto relayout = [&](TokenRun from, TokenRun to) {
    std::unique_ptr<KernelTask> task;
    REQUIRE(makeRelayoutTask({std::move(from), std::move(to), 4, tokens}, &task).ok());
    runTask(*pool, sink, std::move(task));
  };
  // Blocks of 4 tokens by head become blocks of 16 tokens by head, then of 4 tokens by token.
  relayout(run(source, 4, true), run(target, 16, true));
  relayout(run(target, 16, true), run(target, 16, false));
  const auto rowOf = [](const uint8_t* bytes, uint64_t row) { return bytes + row * 16; };
  for (uint64_t token = 0; token < tokens; token += 7) {
    for (uint64_t head = 0; head < 4; head++) {
      const uint64_t from = token / 4 * 16 + head * 4 + token % 4;
      CHECK(std::memcmp(rowOf(target->data(), token * 4 + head), rowOf(source->data(), from), 16) ==
            0);
    }
  }
  // Pieces of a whole block become the block itself, where they lie.
  const auto copy = allocate(kRegionBytes);
  std::memcpy(copy->data(), source->data(), kRegionBytes);
  relayout(run(copy, 4, true), run(copy, 16, false));
  CHECK(std::memcmp(copy->data(), target->data(), kRegionBytes) == 0);
}

TEST(
    "copy task: what would be written twice, or over its source, is refused; nothing stays "
    "pinned") {
  const auto memory = filled(2 * kRegionBytes, 3);
  const auto slab = allocate(1 << 20);
  const auto statusOf = [&](const std::function<void(BlockCopy&)>& change) {
    BlockCopy copy = {false, twoRegions(memory), {1, 2}, slab, 0};
    change(copy);
    std::unique_ptr<KernelTask> task;
    return makeBlockCopyTask(std::move(copy), &task).status;
  };
  const Status bad = Status::kOutOfRange;
  CHECK(statusOf([](BlockCopy&) {}) == Status::kOk);
  CHECK(statusOf([](BlockCopy& copy) { copy.blockIds = {1, 1}; }) == bad);
  CHECK(statusOf([](BlockCopy& copy) { copy.blockIds = {kBlocks}; }) == bad);
  CHECK(statusOf([](BlockCopy& copy) { copy.slabOffsetBytes = ~uint64_t{0}; }) == bad);
  CHECK(statusOf([](BlockCopy& copy) { copy.slabOffsetBytes = (1 << 20) - 8'192; }) == bad);
  CHECK(statusOf([&](BlockCopy& copy) { copy.slab = memory; }) == bad);
  CHECK(statusOf([](BlockCopy& copy) { copy.regions[1].offsetBytes = kBlockBytes / 2; }) == bad);
  CHECK(statusOf([](BlockCopy& copy) { copy.regions[1].offsetBytes = kRegionBytes + 1; }) == bad);
  CHECK(statusOf([](BlockCopy& copy) { copy.regions.clear(); }) == bad);
  CHECK(statusOf([](BlockCopy& copy) { copy.blockIds.assign(65'537, 0); }) == Status::kLimit);
  const auto relayoutStatus = [&](TokenRun from, TokenRun to, uint64_t tokens) {
    std::unique_ptr<KernelTask> task;
    return makeRelayoutTask({std::move(from), std::move(to), 4, tokens}, &task).status;
  };
  TokenRun shifted = run(memory, 16, false);
  shifted.blockIds.erase(shifted.blockIds.begin());
  CHECK(relayoutStatus(run(memory, 4, true), shifted, 64) == bad);
  CHECK(relayoutStatus(run(memory, 16, true), run(memory, 4, true), 64) == bad);
  CHECK(relayoutStatus(run(memory, 4, true), run(slab, 16, true), ~uint64_t{0}) == bad);
  TokenRun behind = run(slab, 16, true);
  behind.firstToken = ~uint64_t{0};
  CHECK(relayoutStatus(run(memory, 4, true), behind, 2) == bad);
  CHECK_EQ(memory->pinCount(), 0u);
  CHECK_EQ(slab->pinCount(), 0u);
}
