#include "kernel_pool.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "kernels.h"
#include "limits.h"

namespace kvferry {
namespace {

/** Bytes of one batch: long enough to hide the hand-over, short enough to share a job out evenly.
 */
constexpr uint64_t kBatchBytes = 256 * 1024;
constexpr uint64_t kBatchSlotsMin = 8;
constexpr uint64_t kBatchSlotsMax = 4'096;

/** A job in the pool. Batches are claimed by number; each writes its own part of `digests`. */
struct RunningJob {
  uint64_t ticket = 0;
  KernelJob job;
  std::vector<MemoryPin> pins;
  std::vector<uint64_t> digests;
  uint64_t slotsPerBatch = 1;
  uint64_t batchCount = 0;
  std::atomic<uint64_t> nextBatch{0};
  std::atomic<uint64_t> batchesLeft{0};
};

Result badJob(std::string detail) { return Result::outOfRange("kernel", std::move(detail)); }

Result checkRegion(const KernelRegion& region, const KernelJob& job, size_t index) {
  const std::string where = "region " + std::to_string(index) + ": ";
  const bool isSlotWhole = region.blockSizeBytes > 0 &&
                           region.blockSizeBytes % job.blockTokens == 0 &&
                           region.blockSizeBytes / job.blockTokens % 8 == 0;
  if (!isSlotWhole) return badJob(where + "a slot must be a positive multiple of 8 bytes");
  if (job.kind == KernelKind::kExpect) return Result::success();
  if (region.memory == nullptr) return badJob(where + "no memory");
  if (region.blockStrideBytes < region.blockSizeBytes) {
    return badJob(where + "the stride is below the block size");
  }
  if (region.blockCount == 0 || region.blockCount > limits::kBlockCountMax) {
    return badJob(where + "block count");
  }
  uint64_t lastStart = 0;
  uint64_t end = 0;
  const bool isWrapping =
      __builtin_mul_overflow(region.blockStrideBytes, region.blockCount - 1, &lastStart) ||
      __builtin_add_overflow(lastStart, region.blockSizeBytes, &end) ||
      __builtin_add_overflow(end, region.offsetBytes, &end);
  if (isWrapping || end > region.memory->sizeBytes()) {
    return badJob(where + "its blocks reach beyond its memory");
  }
  return Result::success();
}

Result checkSlots(const KernelJob& job) {
  uint64_t blockCount = limits::kBlockCountMax;
  for (const KernelRegion& region : job.regions)
    blockCount = std::min(blockCount, region.blockCount);
  bool isAscending = true;
  uint64_t previous = 0;
  for (size_t i = 0; i < job.blockIds.size(); i++) {
    if (job.blockIds[i] >= blockCount || job.offsets[i] >= job.blockTokens) {
      return badJob("slot " + std::to_string(i) + " lies outside the caches");
    }
    const uint64_t position = job.blockIds[i] * job.blockTokens + job.offsets[i];
    if (i > 0 && position <= previous) isAscending = false;
    previous = position;
  }
  // Two threads writing one slot would leave a mixture that no digest describes.
  if (job.kind != KernelKind::kFill || isAscending) return Result::success();
  std::vector<uint64_t> positions(job.blockIds.size());
  for (size_t i = 0; i < positions.size(); i++) {
    positions[i] = job.blockIds[i] * job.blockTokens + job.offsets[i];
  }
  std::sort(positions.begin(), positions.end());
  if (std::adjacent_find(positions.begin(), positions.end()) != positions.end()) {
    return badJob("a slot is named twice");
  }
  return Result::success();
}

Result checkJob(const KernelJob& job) {
  if (job.blockTokens == 0 || job.blockTokens > limits::kSlotsPerKernelJobMax) {
    return badJob("block tokens");
  }
  if (job.regions.empty()) return badJob("no region");
  if (job.regions.size() > limits::kRegionCountMax) {
    return Result::overLimit("regionCountMax", job.regions.size(), limits::kRegionCountMax);
  }
  const bool hasSeeds = job.kind != KernelKind::kDigest;
  const bool hasSlots = job.kind != KernelKind::kExpect;
  const size_t count = hasSlots ? job.blockIds.size() : job.seeds.size();
  if (count > limits::kSlotsPerKernelJobMax) {
    return Result::overLimit("slotsPerKernelJobMax", count, limits::kSlotsPerKernelJobMax);
  }
  if (hasSlots && job.offsets.size() != count)
    return badJob("block ids and offsets differ in length");
  if (hasSeeds && job.seeds.size() != count) return badJob("slots and seeds differ in length");
  for (size_t i = 0; i < job.regions.size(); i++) {
    Result checked = checkRegion(job.regions[i], job, i);
    if (!checked.ok()) return checked;
  }
  return hasSlots ? checkSlots(job) : Result::success();
}

uint64_t slotsPerBatch(const KernelJob& job) {
  uint64_t bytesPerSlot = 0;
  for (const KernelRegion& region : job.regions)
    bytesPerSlot += region.blockSizeBytes / job.blockTokens;
  return std::clamp(kBatchBytes / bytesPerSlot, kBatchSlotsMin, kBatchSlotsMax);
}

/** `slots` is scratch of the calling thread. */
void runBatch(RunningJob& running, uint64_t batch, std::vector<uint8_t*>& slots) {
  const KernelJob& job = running.job;
  const size_t first = batch * running.slotsPerBatch;
  const size_t count = std::min<size_t>(running.slotsPerBatch, running.digests.size() - first);
  uint64_t* sums = running.digests.data() + first;
  for (size_t r = 0; r < job.regions.size(); r++) {
    const KernelRegion& region = job.regions[r];
    const uint64_t slotBytes = region.blockSizeBytes / job.blockTokens;
    if (job.kind == KernelKind::kExpect) {
      kernels::expectSlots(job.seeds.data() + first, count, r, slotBytes / 8, sums);
      continue;
    }
    slots.resize(count);
    uint8_t* base = region.memory->data() + region.offsetBytes;
    for (size_t i = 0; i < count; i++) {
      slots[i] = base + job.blockIds[first + i] * region.blockStrideBytes +
                 job.offsets[first + i] * slotBytes;
    }
    if (job.kind == KernelKind::kFill) {
      kernels::fillSlots(slots.data(), job.seeds.data() + first, count, r, slotBytes / 8, sums);
    } else {
      kernels::digestSlots(slots.data(), count, r, slotBytes / 8, sums);
    }
  }
}

}  // namespace

struct KernelPool::Core {
  explicit Core(CompletionSink& completionSink) : sink(completionSink) {}

  CompletionSink& sink;
  std::mutex mutex;
  std::condition_variable wake;
  /** Jobs with batches that nobody has claimed; the front one is worked on. */
  std::deque<std::shared_ptr<RunningJob>> queue;
  std::vector<KernelCompletion> done;
  uint64_t jobsInFlight = 0;
  uint64_t nextTicket = 1;
  bool isStopping = false;
  std::vector<std::thread> threads;

  void finish(RunningJob& running) {
    running.pins.clear();
    bool isFirst = false;
    {
      std::lock_guard<std::mutex> lock(mutex);
      isFirst = done.empty();
      done.push_back({running.ticket, std::move(running.digests)});
    }
    if (isFirst) sink.notify();
  }

  /** The next job that may have an unclaimed batch; null when stopping. */
  std::shared_ptr<RunningJob> take() {
    std::unique_lock<std::mutex> lock(mutex);
    for (;;) {
      if (isStopping) return nullptr;
      while (!queue.empty() && queue.front()->nextBatch.load() >= queue.front()->batchCount) {
        queue.pop_front();
      }
      if (!queue.empty()) return queue.front();
      wake.wait(lock);
    }
  }

  void work() {
    std::vector<uint8_t*> slots;
    while (std::shared_ptr<RunningJob> running = take()) {
      const uint64_t batch = running->nextBatch.fetch_add(1);
      if (batch >= running->batchCount) continue;
      runBatch(*running, batch, slots);
      if (running->batchesLeft.fetch_sub(1) == 1) finish(*running);
    }
  }
};

KernelPool::KernelPool(std::unique_ptr<Core> core) : core_(std::move(core)) {}

std::unique_ptr<KernelPool> KernelPool::create(uint64_t threadCount, CompletionSink& sink) {
  auto core = std::make_unique<Core>(sink);
  const uint64_t count = std::clamp<uint64_t>(threadCount, 1, limits::kKernelThreadCountMax);
  Core* raw = core.get();
  for (uint64_t i = 0; i < count; i++) core->threads.emplace_back([raw] { raw->work(); });
  return std::unique_ptr<KernelPool>(new KernelPool(std::move(core)));
}

KernelPool::~KernelPool() { shutdownNow(); }

Result KernelPool::submit(KernelJob job, uint64_t* ticket) {
  Result checked = checkJob(job);
  if (!checked.ok()) return checked;
  auto running = std::make_shared<RunningJob>();
  if (job.kind != KernelKind::kExpect) {
    for (const KernelRegion& region : job.regions) {
      MemoryPin pin(region.memory);
      if (!pin) return Result::failure(Status::kClosed, "kernel", "the memory was freed");
      running->pins.push_back(std::move(pin));
    }
  }
  const size_t count = job.kind == KernelKind::kExpect ? job.seeds.size() : job.blockIds.size();
  running->digests.assign(count, 0);
  running->slotsPerBatch = slotsPerBatch(job);
  // An empty job still takes one (empty) batch: completions come from the pool's threads alone.
  running->batchCount =
      std::max<uint64_t>(1, (count + running->slotsPerBatch - 1) / running->slotsPerBatch);
  running->batchesLeft = running->batchCount;
  running->job = std::move(job);
  {
    std::lock_guard<std::mutex> lock(core_->mutex);
    if (core_->isStopping) return Result::failure(Status::kClosed, "kernel");
    if (core_->jobsInFlight >= limits::kKernelJobsInFlightMax) {
      return Result::overLimit("kernelJobsInFlightMax", core_->jobsInFlight,
                               limits::kKernelJobsInFlightMax);
    }
    core_->jobsInFlight += 1;
    running->ticket = core_->nextTicket++;
    *ticket = running->ticket;
    core_->queue.push_back(running);
  }
  if (running->batchCount == 1) {
    core_->wake.notify_one();
  } else {
    core_->wake.notify_all();
  }
  return Result::success();
}

void KernelPool::drain(std::vector<KernelCompletion>* out) {
  std::lock_guard<std::mutex> lock(core_->mutex);
  core_->jobsInFlight -= core_->done.size();
  for (KernelCompletion& completion : core_->done) out->push_back(std::move(completion));
  core_->done.clear();
}

void KernelPool::shutdownNow() {
  {
    std::lock_guard<std::mutex> lock(core_->mutex);
    core_->isStopping = true;
    core_->queue.clear();
  }
  core_->wake.notify_all();
  for (std::thread& thread : core_->threads) {
    if (thread.joinable()) thread.join();
  }
}

}  // namespace kvferry
