#include "ipc_launch.h"

#include <algorithm>
#include <utility>

#include "block_stream.h"
#include "kernel_launch.h"
#include "piece_copy.h"
#include "slab_stream.h"

namespace kvferry {
namespace {

struct Launch {
  CudaDevice& device;
  uint64_t ctaCount;
  const CudaLane* before;
  PlanSide local;
  PlanSide remote;
  bool isRead;
  TransferCompletion& completion;
};

Result prepareLane(const Launch& launch, uint64_t bytes, std::unique_ptr<CudaLane>* lane) {
  Result result = launch.device.takeLane(lane, bytes);
  if (result.ok()) result = (*lane)->reserve(bytes);
  return result;
}

Result waitForTurn(const Launch& launch, CudaLane& lane) {
  return launch.before == nullptr ? Result::success() : lane.waitFor(*launch.before);
}

Result launchStreams(const Launch& launch, std::unique_ptr<CudaLane>* lane) {
  const uint64_t localBytes = streamBytes(launch.local);
  const uint64_t bytes = localBytes + streamBytes(launch.remote);
  Result result = prepareLane(launch, bytes, lane);
  if (!result.ok()) return result;
  const kernels::BlockStream local = putStream(launch.local, **lane, 0);
  const kernels::BlockStream remote = putStream(launch.remote, **lane, localBytes);
  kernels::MoveArguments arguments;
  arguments.to = launch.isRead ? local : remote;
  arguments.from = launch.isRead ? remote : local;
  arguments.bytes = launch.completion.bytes;
  arguments.partBytes = kPartBytes;
  launch.completion.descriptorsBeforeMerge =
      countPairs(arguments.bytes, remote.blockBytes, local.blockBytes);
  result = (*lane)->upload(0, bytes);
  if (result.ok()) result = waitForTurn(launch, **lane);
  if (!result.ok()) return result;
  const uint64_t blocks = warpBlocks((arguments.bytes + kPartBytes - 1) / kPartBytes);
  return launchWide(launch.device, **lane, CudaKernel::kMove, std::min(blocks, launch.ctaCount),
                    &arguments);
}

Result launchPieces(const Launch& launch, std::unique_ptr<CudaLane>* lane) {
  TransferPlan plan;
  buildPlan(launch.local, launch.remote, &plan);
  launch.completion.descriptorsBeforeMerge = plan.descriptorsBeforeMerge;
  PieceCopy pieces;
  for (const CopyDescriptor& each : plan.descriptors) {
    pieces.add(launch.isRead ? each.local : each.remote, launch.isRead ? each.remote : each.local,
               each.bytes);
  }
  Result result = prepareLane(launch, pieces.listBytes(), lane);
  if (result.ok()) result = waitForTurn(launch, **lane);
  return result.ok() ? pieces.enqueue(launch.device, **lane, launch.ctaCount) : result;
}

}  // namespace

Result launchIpc(CudaDevice& device, const IpcMappings& mappings, uint64_t ctaCount,
                 const CudaLane* before, Transfer& transfer, std::unique_ptr<CudaLane>* lane) {
  BlockTable there;
  Result result = mappings.translate(transfer.remote.entry->table, &there);
  if (!result.ok()) return result;
  PlanSide remote = transfer.remote.view();
  remote.table = &there;
  const Launch launch{device, ctaCount, before, transfer.local.view(), remote,
                      transfer.direction == Direction::kRead, transfer.completion};
  std::unique_ptr<CudaLane> made;
  result = isEven(launch.local) && isEven(remote) ? launchStreams(launch, &made)
                                                  : launchPieces(launch, &made);
  if (result.ok()) result = made->mark();
  if (!result.ok()) return result;
  transfer.completion.descriptorsAfterMerge = 1;
  *lane = std::move(made);
  return result;
}

}  // namespace kvferry
