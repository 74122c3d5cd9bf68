#include "copy_task.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "copy_checks.h"
#include "cuda_task.h"
#include "limits.h"

namespace kvferry {
namespace {

uint64_t bytesPerBlock(const std::vector<KernelRegion>& regions) {
  uint64_t sum = 0;
  // Sizes are below 2^53 and regions at most 2^10: no wrap.
  for (const KernelRegion& region : regions) sum += region.blockSizeBytes;
  return sum;
}

/** How many units of `unitBytes` make a batch, and how many batches `count` units make. */
uint64_t unitsPerBatch(uint64_t unitBytes) {
  return std::max<uint64_t>(1, kKernelBatchBytes / unitBytes);
}
uint64_t batchesOf(uint64_t count, uint64_t perBatch) {
  return std::max<uint64_t>(1, (count + perBatch - 1) / perBatch);
}

class BlockCopyTask final : public KernelTask {
 public:
  explicit BlockCopyTask(BlockCopy copy)
      : copy_(std::move(copy)),
        blockBytes_(bytesPerBlock(copy_.regions)),
        blocksPerBatch_(unitsPerBatch(blockBytes_)) {
    batchCount_ = batchesOf(copy_.blockIds.size(), blocksPerBatch_);
  }

  Result pinMemory() {
    Result pinned = pin(copy_.regions);
    return pinned.ok() ? pin(copy_.slab) : pinned;
  }

  void runBatch(uint64_t batch, std::vector<uint8_t>&) override {
    const size_t first = batch * blocksPerBatch_;
    const size_t end = std::min<size_t>(first + blocksPerBatch_, copy_.blockIds.size());
    for (size_t i = first; i < end; i++) {
      uint8_t* packed = copy_.slab->data() + copy_.slabOffsetBytes + i * blockBytes_;
      for (const KernelRegion& region : copy_.regions) {
        uint8_t* block = region.blockData(copy_.blockIds[i]);
        std::memcpy(copy_.isGather ? packed : block, copy_.isGather ? block : packed,
                    region.blockSizeBytes);
        packed += region.blockSizeBytes;
      }
    }
  }

 private:
  const BlockCopy copy_;
  const uint64_t blockBytes_;
  const uint64_t blocksPerBatch_;
};

Result checkSlab(const BlockCopy& copy) {
  if (copy.slab == nullptr) return badKernel("no slab");
  // At most 2^16 blocks of at most 2^63: checked in 128 bits by the builtin.
  uint64_t end = 0;
  if (__builtin_mul_overflow(bytesPerBlock(copy.regions), copy.blockIds.size(), &end) ||
      __builtin_add_overflow(end, copy.slabOffsetBytes, &end) || end > copy.slab->sizeBytes()) {
    return badKernel("the slab is too short");
  }
  for (const KernelRegion& region : copy.regions) {
    if (region.memory != copy.slab) continue;
    for (const uint32_t id : copy.blockIds) {
      const uint64_t start = region.blockStart(id);
      if (start < end && start + region.blockSizeBytes > copy.slabOffsetBytes) {
        return badKernel("the slab overlaps block " + std::to_string(id));
      }
    }
  }
  return Result::success();
}

/** Tokens that lie together in one source block and one target block. */
struct Piece {
  uint32_t fromBlock;
  uint64_t fromSlot;
  uint64_t toSlot;
  uint64_t tokenCount;
};

/** The tokens of the run that lie in target block number `index`. */
std::pair<uint64_t, uint64_t> tokensOfTarget(const Relayout& relayout, uint64_t index) {
  const TokenRun& to = relayout.to;
  const uint64_t start = index * to.blockTokens;
  const uint64_t end = start + to.blockTokens;
  const uint64_t first = start > to.firstToken ? start - to.firstToken : 0;
  const uint64_t last = end > to.firstToken ? end - to.firstToken : 0;
  return {std::min(first, relayout.tokenCount), std::min(last, relayout.tokenCount)};
}

/** The piece that starts with `token`, of those that end before `end`. */
Piece pieceAt(const Relayout& relayout, uint64_t token, uint64_t end) {
  const TokenRun& from = relayout.from;
  const uint64_t source = from.firstToken + token;
  const uint64_t slot = source % from.blockTokens;
  return {from.blockIds[source / from.blockTokens], slot,
          (relayout.to.firstToken + token) % relayout.to.blockTokens,
          std::min(end - token, from.blockTokens - slot)};
}

/** A unit is one region of one target block; nobody else writes its bytes. */
class RelayoutTask final : public KernelTask {
 public:
  RelayoutTask(Relayout relayout, bool isInPlace)
      : relayout_(std::move(relayout)),
        isInPlace_(isInPlace),
        unitsPerBatch_(unitsPerBatch(std::max<uint64_t>(
            1, bytesPerBlock(relayout_.to.regions) / relayout_.to.regions.size()))) {
    batchCount_ = batchesOf(unitCount(), unitsPerBatch_);
  }

  Result pinMemory() {
    Result pinned = pin(relayout_.from.regions);
    return pinned.ok() ? pin(relayout_.to.regions) : pinned;
  }

  void runBatch(uint64_t batch, std::vector<uint8_t>& scratch) override {
    const uint64_t first = batch * unitsPerBatch_;
    const uint64_t end = std::min(first + unitsPerBatch_, unitCount());
    const size_t regionCount = relayout_.to.regions.size();
    for (uint64_t unit = first; unit < end; unit++) {
      runUnit(unit / regionCount, unit % regionCount, scratch);
    }
  }

 private:
  uint64_t unitCount() const { return relayout_.to.blockIds.size() * relayout_.to.regions.size(); }

  void runUnit(uint64_t index, size_t regionIndex, std::vector<uint8_t>& scratch) const {
    const auto [first, end] = tokensOfTarget(relayout_, index);
    const KernelRegion& source = relayout_.from.regions[regionIndex];
    uint8_t* target = relayout_.to.regions[regionIndex].blockData(relayout_.to.blockIds[index]);
    if (isInPlace_) {
      size_t at = 0;
      for (uint64_t token = first; token < end;) {
        const Piece piece = pieceAt(relayout_, token, end);
        scratch.resize(std::max(scratch.size(), at + source.blockSizeBytes));
        std::memcpy(scratch.data() + at, source.blockData(piece.fromBlock), source.blockSizeBytes);
        at += source.blockSizeBytes;
        token += piece.tokenCount;
      }
    }
    size_t at = 0;
    for (uint64_t token = first; token < end;) {
      const Piece piece = pieceAt(relayout_, token, end);
      const uint8_t* bytes = isInPlace_ ? scratch.data() + at : source.blockData(piece.fromBlock);
      movePiece(piece, bytes, source.blockSizeBytes / relayout_.from.blockTokens, target);
      at += source.blockSizeBytes;
      token += piece.tokenCount;
    }
  }

  void movePiece(const Piece& piece, const uint8_t* source, uint64_t tokenBytes,
                 uint8_t* target) const {
    const TokenRun& from = relayout_.from;
    const TokenRun& to = relayout_.to;
    if (!from.isHeadMajor && !to.isHeadMajor) {
      std::memcpy(target + piece.toSlot * tokenBytes, source + piece.fromSlot * tokenBytes,
                  piece.tokenCount * tokenBytes);
      return;
    }
    const uint64_t heads = relayout_.headCount;
    const uint64_t rowBytes = tokenBytes / heads;
    const auto rowOf = [heads](const TokenRun& run, uint64_t slot, uint64_t head) {
      return run.isHeadMajor ? head * run.blockTokens + slot : slot * heads + head;
    };
    for (uint64_t head = 0; head < heads; head++) {
      const bool isTogether = from.isHeadMajor && to.isHeadMajor;
      const uint64_t step = isTogether ? piece.tokenCount : 1;
      for (uint64_t i = 0; i < piece.tokenCount; i += step) {
        std::memcpy(target + rowOf(to, piece.toSlot + i, head) * rowBytes,
                    source + rowOf(from, piece.fromSlot + i, head) * rowBytes, step * rowBytes);
      }
    }
  }

  const Relayout relayout_;
  const bool isInPlace_;
  const uint64_t unitsPerBatch_;
};

Result checkRun(const TokenRun& run, uint64_t tokenCount) {
  if (run.blockTokens == 0 || run.blockTokens > limits::kSlotsPerKernelJobMax) {
    return badKernel("block tokens");
  }
  Result checked = checkBlocks(run.regions, run.blockIds);
  if (!checked.ok()) return checked;
  uint64_t end = 0;
  if (__builtin_add_overflow(run.firstToken, tokenCount, &end) ||
      end > run.blockIds.size() * run.blockTokens) {
    return badKernel("more tokens than the blocks hold");
  }
  return Result::success();
}

Result checkSameTokens(const Relayout& relayout) {
  const TokenRun& from = relayout.from;
  const TokenRun& to = relayout.to;
  if (from.regions.size() != to.regions.size()) return badKernel("region counts differ");
  const bool hasHeadOrder = from.isHeadMajor || to.isHeadMajor;
  const uint64_t heads = hasHeadOrder ? relayout.headCount : 1;
  for (size_t i = 0; i < from.regions.size(); i++) {
    const uint64_t size = from.regions[i].blockSizeBytes;
    const uint64_t other = to.regions[i].blockSizeBytes;
    if (heads == 0 || size % from.blockTokens != 0 || other % to.blockTokens != 0 ||
        size / from.blockTokens != other / to.blockTokens || size / from.blockTokens % heads != 0) {
      return badKernel("region " + std::to_string(i) + ": bytes of a token or head differ");
    }
  }
  return Result::success();
}

Result checkRelayoutOverlap(const Relayout& relayout, bool* isInPlace) {
  TargetsOfSource sources;
  std::unordered_map<uint32_t, uint64_t> targets;
  for (uint64_t index = 0; index < relayout.to.blockIds.size(); index++) {
    const auto [first, end] = tokensOfTarget(relayout, index);
    if (first < end) targets.emplace(relayout.to.blockIds[index], index);
    for (uint64_t token = first; token < end;) {
      const Piece piece = pieceAt(relayout, token, end);
      const auto [found, isNew] = sources.emplace(piece.fromBlock, index);
      if (!isNew && found->second != index) found->second = kSeveralTargets;
      token += piece.tokenCount;
    }
  }
  return checkOverlap(relayout.from.regions, sources, relayout.to.regions, targets, isInPlace);
}

}  // namespace

Result makeBlockCopyTask(BlockCopy copy, std::unique_ptr<KernelTask>* task) {
  Result checked = checkBlocks(copy.regions, copy.blockIds);
  if (checked.ok()) checked = checkSlab(copy);
  if (checked.ok() && !copy.isGather) checked = checkWrittenOnce(copy.regions, copy.blockIds);
  std::shared_ptr<CudaDevice> device;
  if (checked.ok()) checked = findDevice(memoriesOf(copy.regions, copy.slab.get()), &device);
  if (!checked.ok()) return checked;
  if (device != nullptr) {
    const std::vector<KernelRegion> regions = copy.regions;
    const std::shared_ptr<Memory> slab = copy.slab;
    auto onDevice = makeCudaBlockCopyTask(std::move(device), std::move(copy));
    checked = onDevice->hold(regions);
    if (checked.ok()) checked = onDevice->hold(slab);
    if (checked.ok()) *task = std::move(onDevice);
    return checked;
  }
  auto made = std::make_unique<BlockCopyTask>(std::move(copy));
  checked = made->pinMemory();
  if (checked.ok()) *task = std::move(made);
  return checked;
}

Result makeRelayoutTask(Relayout relayout, std::unique_ptr<KernelTask>* task) {
  Result checked = checkRun(relayout.from, relayout.tokenCount);
  if (checked.ok()) checked = checkRun(relayout.to, relayout.tokenCount);
  if (checked.ok()) checked = checkSameTokens(relayout);
  if (checked.ok()) checked = checkWrittenOnce(relayout.to.regions, relayout.to.blockIds);
  bool isInPlace = false;
  if (checked.ok()) checked = checkRelayoutOverlap(relayout, &isInPlace);
  std::shared_ptr<CudaDevice> device;
  std::vector<KernelRegion> regions = relayout.from.regions;
  regions.insert(regions.end(), relayout.to.regions.begin(), relayout.to.regions.end());
  if (checked.ok()) checked = findDevice(memoriesOf(regions), &device);
  if (!checked.ok()) return checked;
  if (device != nullptr) {
    auto onDevice = makeCudaRelayoutTask(std::move(device), std::move(relayout), isInPlace);
    checked = onDevice->hold(regions);
    if (checked.ok()) *task = std::move(onDevice);
    return checked;
  }
  auto made = std::make_unique<RelayoutTask>(std::move(relayout), isInPlace);
  checked = made->pinMemory();
  if (checked.ok()) *task = std::move(made);
  return checked;
}

}  // namespace kvferry
