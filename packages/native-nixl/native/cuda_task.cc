#include "cuda_task.h"

#include <algorithm>
#include <cstring>

#include "cuda/kernel_arguments.h"
#include "cuda_lane.h"
#include "kernel_launch.h"
#include "piece_copy.h"

namespace kvferry {
namespace {

using kernels::DeviceRegion;

class CudaContentTask final : public CudaTask {
 public:
  CudaContentTask(std::shared_ptr<CudaDevice> device, KernelJob job)
      : CudaTask(std::move(device)), job_(std::move(job)), digests_(job_.blockIds.size(), 0) {}

  std::vector<uint64_t> takeDigests() override { return std::move(digests_); }

 private:
  Result run(CudaLane& lane) override {
    if (digests_.empty()) return Result::success();
    const bool isFill = job_.kind == KernelKind::kFill;
    CudaHandle function = nullptr;
    Result result = device().function(isFill ? CudaKernel::kFill : CudaKernel::kDigest, &function);
    if (!result.ok()) return result;
    ArgumentList list;
    const uint64_t sumBytes = digests_.size() * sizeof(uint64_t);
    const uint64_t sums = list.addRoom(sumBytes);
    const uint64_t regions = list.add(deviceRegions(job_.regions));
    const uint64_t blockIds = list.add(job_.blockIds);
    const uint64_t offsets = list.add(job_.offsets);
    const uint64_t seeds = list.add(job_.seeds);
    result = list.upload(lane);
    if (!result.ok()) return result;
    kernels::SlotArguments arguments;
    arguments.sums = pointerTo<uint64_t>(lane, sums);
    arguments.regions = pointerTo<const DeviceRegion>(lane, regions);
    arguments.blockIds = pointerTo<const uint32_t>(lane, blockIds);
    arguments.offsets = pointerTo<const uint32_t>(lane, offsets);
    arguments.seeds = pointerTo<const uint64_t>(lane, seeds);
    arguments.regionCount = job_.regions.size();
    arguments.slotCount = digests_.size();
    arguments.blockTokens = job_.blockTokens;
    const uint64_t units = arguments.regionCount * arguments.slotCount;
    result = lane.launch(function, blocksFor(device(), units, kThreadsPerBlock), &arguments);
    if (result.ok()) result = lane.download(sums, sumBytes);
    if (result.ok()) result = lane.finish();
    if (result.ok()) std::memcpy(digests_.data(), lane.host() + sums, sumBytes);
    return result;
  }

  const KernelJob job_;
  std::vector<uint64_t> digests_;
};

class CudaBlockCopyTask final : public CudaTask {
 public:
  CudaBlockCopyTask(std::shared_ptr<CudaDevice> device, BlockCopy copy)
      : CudaTask(std::move(device)), copy_(std::move(copy)) {}

 private:
  Result run(CudaLane& lane) override {
    Result result = isEven() ? packAll(lane) : copyPieces(lane);
    return result.ok() ? lane.finish() : result;
  }

  /** Blocks of one size: the GPU knows by itself where each lies. */
  bool isEven() const noexcept {
    return !copy_.blockIds.empty() &&
           std::all_of(copy_.regions.begin(), copy_.regions.end(), [&](const KernelRegion& region) {
             return region.blockSizeBytes == copy_.regions.front().blockSizeBytes;
           });
  }

  Result packAll(CudaLane& lane) {
    ArgumentList list;
    const uint64_t regions = list.add(deviceRegions(copy_.regions));
    const uint64_t blockIds = list.add(copy_.blockIds);
    Result result = list.upload(lane);
    if (!result.ok()) return result;
    kernels::PackArguments arguments = {};
    arguments.blocks = {pointerTo<const DeviceRegion>(lane, regions),
                        pointerTo<const uint32_t>(lane, blockIds),
                        copy_.regions.size(),
                        copy_.blockIds.size(),
                        copy_.regions.front().blockSizeBytes,
                        1};
    arguments.bytes =
        copy_.blockIds.size() * copy_.regions.size() * arguments.blocks.blockBytes;
    arguments.packed = copy_.slab->address() + copy_.slabOffsetBytes;
    arguments.isGather = copy_.isGather ? 1 : 0;
    arguments.partBytes = kPartBytes;
    const uint64_t units = packUnits(arguments.blocks.blockBytes, arguments.bytes);
    return launchWide(device(), lane, CudaKernel::kPack, warpBlocks(units), &arguments);
  }

  Result copyPieces(CudaLane& lane) {
    PieceCopy pieces;
    uint64_t packed = copy_.slab->address() + copy_.slabOffsetBytes;
    for (const uint32_t id : copy_.blockIds) {
      for (const KernelRegion& region : copy_.regions) {
        const uint64_t block = region.memory->address() + region.blockStart(id);
        pieces.add(copy_.isGather ? packed : block, copy_.isGather ? block : packed,
                   region.blockSizeBytes);
        packed += region.blockSizeBytes;
      }
    }
    Result result = lane.reserve(pieces.listBytes());
    return result.ok() ? pieces.enqueue(device(), lane) : result;
  }

  const BlockCopy copy_;
};

}  // namespace

void CudaTask::runBatch(uint64_t, std::vector<uint8_t>&) {
  std::unique_ptr<CudaLane> lane;
  outcome_ = device_->enter();
  if (outcome_.ok()) outcome_ = device_->takeLane(&lane);
  if (outcome_.ok()) outcome_ = run(*lane);
  if (outcome_.ok()) device_->give(std::move(lane));
}

Result findDevice(const std::vector<const Memory*>& memories, std::shared_ptr<CudaDevice>* device) {
  CudaDevice* found = nullptr;
  for (const Memory* memory : memories) {
    if (memory == nullptr || !memory->isDevice()) continue;
    if (found != nullptr && found != memory->device()) return badKernel("memory of two GPUs");
    found = memory->device();
  }
  if (found == nullptr) return Result::success();
  for (const Memory* memory : memories) {
    if (memory == nullptr || memory->isDevice() || memory->device() != nullptr) continue;
    return badKernel("host memory beside a GPU's must be page-locked");
  }
  *device = found->shared_from_this();
  return Result::success();
}

std::unique_ptr<CudaTask> makeCudaContentTask(std::shared_ptr<CudaDevice> device, KernelJob job) {
  return std::make_unique<CudaContentTask>(std::move(device), std::move(job));
}

std::unique_ptr<CudaTask> makeCudaBlockCopyTask(std::shared_ptr<CudaDevice> device,
                                                BlockCopy copy) {
  return std::make_unique<CudaBlockCopyTask>(std::move(device), std::move(copy));
}

}  // namespace kvferry
