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

/** Threads of a GPU are many and cheap: enough blocks to fill it several times over. */
constexpr uint64_t kBlocksPerProcessor = 16;

std::vector<DeviceRegion> deviceRegions(const std::vector<KernelRegion>& regions) {
  std::vector<DeviceRegion> list;
  for (const KernelRegion& region : regions) {
    list.push_back({region.memory->address() + region.offsetBytes, region.blockStrideBytes,
                    region.blockSizeBytes});
  }
  return list;
}

uint64_t blocksFor(const CudaDevice& device, uint64_t units, uint64_t perBlock) {
  const auto most = kBlocksPerProcessor * static_cast<uint64_t>(device.processorCount());
  return std::min((units + perBlock - 1) / perBlock, most);
}

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

class CudaRelayoutTask final : public CudaTask {
 public:
  CudaRelayoutTask(std::shared_ptr<CudaDevice> device, Relayout relayout, bool isInPlace)
      : CudaTask(std::move(device)), relayout_(std::move(relayout)), isInPlace_(isInPlace) {}

 private:
  Result run(CudaLane& lane) override {
    if (relayout_.tokenCount == 0) return Result::success();
    ArgumentList list;
    const PlacedRun from = place(relayout_.from, list);
    const PlacedRun to = place(relayout_.to, list);
    if (!isInPlace_) {
      Result result = list.upload(lane);
      if (result.ok()) result = launch(lane, view(lane, from), view(lane, to));
      return result.ok() ? lane.finish() : result;
    }
    // All is read before any is written: a copy in between, its tokens in a row, each region for itself.
    std::vector<DeviceRegion> between;
    uint64_t bytes = 0;
    for (const KernelRegion& region : relayout_.from.regions) {
      const uint64_t regionBytes =
          region.blockSizeBytes / relayout_.from.blockTokens * relayout_.tokenCount;
      between.push_back({bytes, regionBytes, regionBytes});
      bytes += (regionBytes + 15) / 16 * 16;
    }
    std::shared_ptr<CudaPointer> scratch;
    Result result = allocate(bytes, &scratch);
    if (!result.ok()) return result;
    for (DeviceRegion& region : between) region.address += *scratch;
    PlacedRun middle;
    middle.regions = list.add(between);
    middle.blockIds = list.add(std::vector<uint32_t>{0});
    middle.blockTokens = relayout_.tokenCount;
    result = list.upload(lane);
    if (result.ok()) result = launch(lane, view(lane, from), view(lane, middle));
    if (result.ok()) result = launch(lane, view(lane, middle), view(lane, to));
    return result.ok() ? lane.finish() : result;
  }

  /** A run whose arrays stand in the argument list. */
  struct PlacedRun {
    uint64_t regions = 0;
    uint64_t blockIds = 0;
    uint64_t blockTokens = 0;
    uint64_t firstToken = 0;
    bool isHeadMajor = false;
  };

  static PlacedRun place(const TokenRun& run, ArgumentList& list) {
    return {list.add(deviceRegions(run.regions)), list.add(run.blockIds), run.blockTokens,
            run.firstToken, run.isHeadMajor};
  }

  static kernels::DeviceRun view(const CudaLane& lane, const PlacedRun& run) {
    return {pointerTo<const DeviceRegion>(lane, run.regions),
            pointerTo<const uint32_t>(lane, run.blockIds), run.blockTokens, run.firstToken,
            run.isHeadMajor ? uint64_t{1} : uint64_t{0}};
  }

  Result launch(CudaLane& lane, const kernels::DeviceRun& from, const kernels::DeviceRun& to) {
    CudaHandle function = nullptr;
    Result result = device().function(CudaKernel::kRelayout, &function);
    if (!result.ok()) return result;
    const bool hasHeads = relayout_.from.isHeadMajor || relayout_.to.isHeadMajor;
    kernels::RelayoutArguments arguments;
    arguments.from = from;
    arguments.to = to;
    arguments.regionCount = relayout_.to.regions.size();
    arguments.headCount = hasHeads ? relayout_.headCount : 1;
    arguments.tokenCount = relayout_.tokenCount;
    const uint64_t rows = arguments.regionCount * arguments.tokenCount * arguments.headCount;
    return lane.launch(function, blocksFor(device(), rows, kWarpsPerBlock), &arguments);
  }

  /** Freed with its last owner, which is after `finish`. */
  Result allocate(uint64_t bytes, std::shared_ptr<CudaPointer>* memory) {
    const CudaApi& api = device().api();
    CudaPointer pointer = 0;
    Result result = api.check(api.memoryAllocate(&pointer, bytes), "memoryAllocate");
    if (!result.ok()) return result;
    memory->reset(new CudaPointer(pointer), [&api](const CudaPointer* owned) {
      api.memoryFree(*owned);
      delete owned;
    });
    return result;
  }

  const Relayout relayout_;
  const bool isInPlace_;
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

std::unique_ptr<CudaTask> makeCudaRelayoutTask(std::shared_ptr<CudaDevice> device,
                                               Relayout relayout, bool isInPlace) {
  return std::make_unique<CudaRelayoutTask>(std::move(device), std::move(relayout), isInPlace);
}

}  // namespace kvferry
