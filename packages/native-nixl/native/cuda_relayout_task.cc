// Relayout on a GPU: tokens from one block size and order to another, and, where both are alike, whole blocks between
// caches and tiers.
#include <algorithm>

#include "cuda/kernel_arguments.h"
#include "cuda_lane.h"
#include "cuda_task.h"
#include "kernel_launch.h"

namespace kvferry {
namespace {

using kernels::DeviceRegion;

/**
 * Of threads that copy to or from host memory: the bus is full with fewer, and an engine computes beside
 * them.
 */
constexpr uint64_t kHostCopyBlocksMax = 32;

/** What one warp copies at a time is a row: of a token, of a head of it, or a part of a block. */
struct Rows {
  /** In each token. */
  uint64_t count = 1;
  uint64_t tokens = 0;
  /** Bound on blocks of threads. */
  uint64_t blocksMax = 0;
};

class CudaRelayoutTask final : public CudaTask {
 public:
  CudaRelayoutTask(std::shared_ptr<CudaDevice> device, Relayout relayout, bool isInPlace)
      : CudaTask(std::move(device)), relayout_(std::move(relayout)), isInPlace_(isInPlace) {}

 private:
  /** A run whose arrays stand in the argument list. */
  struct PlacedRun {
    uint64_t regions = 0;
    uint64_t blockIds = 0;
    uint64_t blockTokens = 0;
    uint64_t firstToken = 0;
    bool isHeadMajor = false;
  };

  Result run(CudaLane& lane) override {
    if (relayout_.tokenCount == 0) return Result::success();
    if (isInPlace_) return runInPlace(lane);
    ArgumentList list;
    PlacedRun from = place(relayout_.from, list);
    PlacedRun to = place(relayout_.to, list);
    Rows rows = tokenRows();
    if (areBlocksAlike()) {
      rows = blockRows();
      for (PlacedRun* run : {&from, &to}) {
        run->blockTokens = 1;
        run->isHeadMajor = false;
      }
    }
    Result result = list.upload(lane);
    if (result.ok()) result = launch(lane, view(lane, from), view(lane, to), rows);
    return result.ok() ? lane.finish() : result;
  }

  /** All is read before any is written: a copy in between, its tokens in a row, each region for itself. */
  Result runInPlace(CudaLane& lane) {
    ArgumentList list;
    const PlacedRun from = place(relayout_.from, list);
    const PlacedRun to = place(relayout_.to, list);
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
    const Rows rows = tokenRows();
    result = list.upload(lane);
    if (result.ok()) result = launch(lane, view(lane, from), view(lane, middle), rows);
    if (result.ok()) result = launch(lane, view(lane, middle), view(lane, to), rows);
    return result.ok() ? lane.finish() : result;
  }

  /** Whole blocks that stay as they are: then it doesn't matter what lies where in them. */
  bool areBlocksAlike() const {
    const TokenRun& from = relayout_.from;
    const TokenRun& to = relayout_.to;
    return from.blockTokens == to.blockTokens && from.isHeadMajor == to.isHeadMajor &&
           from.firstToken == 0 && to.firstToken == 0 &&
           relayout_.tokenCount % from.blockTokens == 0;
  }

  Rows tokenRows() const {
    const bool hasHeads = relayout_.from.isHeadMajor || relayout_.to.isHeadMajor;
    const uint64_t most = kBlocksPerProcessor * static_cast<uint64_t>(device().processorCount());
    return {hasHeads ? relayout_.headCount : 1, relayout_.tokenCount, most};
  }

  /** A block as one token, cut into as many rows as leave each worth a warp's while. */
  Rows blockRows() const {
    const std::vector<KernelRegion>& regions = relayout_.from.regions;
    const auto areCutEvenly = [&](uint64_t parts) {
      return std::all_of(regions.begin(), regions.end(), [&](const KernelRegion& region) {
        return region.blockSizeBytes % (parts * 16) == 0 && region.blockSizeBytes / parts >= kPartBytes;
      });
    };
    uint64_t parts = 1;
    while (areCutEvenly(2 * parts)) parts *= 2;
    const uint64_t most = reachesHost() ? kHostCopyBlocksMax
                                        : 2 * static_cast<uint64_t>(device().processorCount());
    return {parts, relayout_.tokenCount / relayout_.from.blockTokens, most};
  }

  bool reachesHost() const {
    const auto isOnHost = [](const KernelRegion& region) { return !region.memory->isDevice(); };
    const auto& from = relayout_.from.regions;
    const auto& to = relayout_.to.regions;
    return std::any_of(from.begin(), from.end(), isOnHost) || std::any_of(to.begin(), to.end(), isOnHost);
  }

  static PlacedRun place(const TokenRun& run, ArgumentList& list) {
    return {list.add(deviceRegions(run.regions)), list.add(run.blockIds), run.blockTokens,
            run.firstToken, run.isHeadMajor};
  }

  static kernels::DeviceRun view(const CudaLane& lane, const PlacedRun& run) {
    return {pointerTo<const DeviceRegion>(lane, run.regions),
            pointerTo<const uint32_t>(lane, run.blockIds), run.blockTokens, run.firstToken,
            run.isHeadMajor ? uint64_t{1} : uint64_t{0}};
  }

  Result launch(CudaLane& lane, const kernels::DeviceRun& from, const kernels::DeviceRun& to,
                const Rows& rows) {
    CudaHandle function = nullptr;
    Result result = device().function(CudaKernel::kRelayout, &function);
    if (!result.ok()) return result;
    kernels::RelayoutArguments arguments;
    arguments.from = from;
    arguments.to = to;
    arguments.regionCount = relayout_.to.regions.size();
    arguments.headCount = rows.count;
    arguments.tokenCount = rows.tokens;
    const uint64_t units = arguments.regionCount * rows.tokens * rows.count;
    return lane.launch(function, std::min(warpBlocks(units), rows.blocksMax), &arguments);
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

std::unique_ptr<CudaTask> makeCudaRelayoutTask(std::shared_ptr<CudaDevice> device,
                                               Relayout relayout, bool isInPlace) {
  return std::make_unique<CudaRelayoutTask>(std::move(device), std::move(relayout), isInPlace);
}

}  // namespace kvferry
