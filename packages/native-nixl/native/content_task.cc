#include "content_task.h"

#include <algorithm>
#include <string>
#include <utility>

#include "cuda_task.h"
#include "kernels.h"
#include "limits.h"

namespace kvferry {
namespace {

constexpr uint64_t kBatchSlotsMin = 8;
constexpr uint64_t kBatchSlotsMax = 4'096;

Result checkRegion(const KernelRegion& region, const KernelJob& job, size_t index) {
  const std::string where = "region " + std::to_string(index) + ": ";
  const bool isSlotWhole = region.blockSizeBytes > 0 &&
                           region.blockSizeBytes % job.blockTokens == 0 &&
                           region.blockSizeBytes / job.blockTokens % 8 == 0;
  if (!isSlotWhole) return badKernel(where + "a slot must be a positive multiple of 8 bytes");
  if (job.kind == KernelKind::kExpect) return Result::success();
  return checkKernelRegion(region, index);
}

Result checkSlots(const KernelJob& job) {
  const uint64_t blockCount = blockCountOf(job.regions);
  bool isAscending = true;
  uint64_t previous = 0;
  for (size_t i = 0; i < job.blockIds.size(); i++) {
    if (job.blockIds[i] >= blockCount || job.offsets[i] >= job.blockTokens) {
      return badKernel("slot " + std::to_string(i) + " lies outside the caches");
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
    return badKernel("a slot is named twice");
  }
  return Result::success();
}

Result checkJob(const KernelJob& job) {
  if (job.blockTokens == 0 || job.blockTokens > limits::kSlotsPerKernelJobMax) {
    return badKernel("block tokens");
  }
  if (job.regions.empty()) return badKernel("no region");
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
    return badKernel("block ids and offsets differ in length");
  if (hasSeeds && job.seeds.size() != count) return badKernel("slots and seeds differ in length");
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
  return std::clamp(kKernelBatchBytes / bytesPerSlot, kBatchSlotsMin, kBatchSlotsMax);
}

/** Each batch writes its own part of the digests. */
class ContentTask final : public KernelTask {
 public:
  explicit ContentTask(KernelJob job) : job_(std::move(job)), slotsPerBatch_(slotsPerBatch(job_)) {
    const bool isExpect = job_.kind == KernelKind::kExpect;
    digests_.assign(isExpect ? job_.seeds.size() : job_.blockIds.size(), 0);
    batchCount_ = std::max<uint64_t>(1, (digests_.size() + slotsPerBatch_ - 1) / slotsPerBatch_);
  }

  Result pinMemory() {
    return job_.kind == KernelKind::kExpect ? Result::success() : pin(job_.regions);
  }

  std::vector<uint64_t> takeDigests() override { return std::move(digests_); }

  void runBatch(uint64_t batch, std::vector<uint8_t>& scratch) override {
    const size_t first = batch * slotsPerBatch_;
    const size_t count = std::min<size_t>(slotsPerBatch_, digests_.size() - first);
    uint64_t* sums = digests_.data() + first;
    scratch.resize(count * sizeof(uint8_t*));
    auto** slots = reinterpret_cast<uint8_t**>(scratch.data());
    for (size_t r = 0; r < job_.regions.size(); r++) {
      const KernelRegion& region = job_.regions[r];
      const uint64_t slotBytes = region.blockSizeBytes / job_.blockTokens;
      if (job_.kind == KernelKind::kExpect) {
        kernels::expectSlots(job_.seeds.data() + first, count, r, slotBytes / 8, sums);
        continue;
      }
      for (size_t i = 0; i < count; i++) {
        slots[i] = region.blockData(job_.blockIds[first + i]) + job_.offsets[first + i] * slotBytes;
      }
      if (job_.kind == KernelKind::kFill) {
        kernels::fillSlots(slots, job_.seeds.data() + first, count, r, slotBytes / 8, sums);
      } else {
        kernels::digestSlots(slots, count, r, slotBytes / 8, sums);
      }
    }
  }

 private:
  const KernelJob job_;
  const uint64_t slotsPerBatch_;
  std::vector<uint64_t> digests_;
};

}  // namespace

Result makeContentTask(KernelJob job, std::unique_ptr<KernelTask>* task) {
  Result checked = checkJob(job);
  if (!checked.ok()) return checked;
  std::shared_ptr<CudaDevice> device;
  checked = job.kind == KernelKind::kExpect ? checked : findDevice(memoriesOf(job.regions), &device);
  if (!checked.ok()) return checked;
  if (device != nullptr) {
    const std::vector<KernelRegion> regions = job.regions;
    auto onDevice = makeCudaContentTask(std::move(device), std::move(job));
    checked = onDevice->hold(regions);
    if (checked.ok()) *task = std::move(onDevice);
    return checked;
  }
  auto made = std::make_unique<ContentTask>(std::move(job));
  Result pinned = made->pinMemory();
  if (pinned.ok()) *task = std::move(made);
  return pinned;
}

}  // namespace kvferry
