// From a transfer to its kernel: the block ids and where the regions of both sides lie go to the GPU, which computes the
// addresses; sides of other shapes are paired here, piece by piece. Which process asked for the memory makes no difference
// to a kernel: a peer's is mapped.
#pragma once

#include <memory>

#include "agent_state.h"
#include "cuda_lane.h"
#include "ipc_mappings.h"

namespace kvferry {

/**
 * Enqueues `transfer` on a lane of its own, behind what `before` (null: nothing) has marked, in at most `ctaCount` CTAs. It
 * counts pieces in the transfer's completion. On failure nothing of it runs.
 */
Result launchIpc(CudaDevice& device, const IpcMappings& mappings, uint64_t ctaCount,
                 const CudaLane* before, Transfer& transfer, std::unique_ptr<CudaLane>* lane);

}  // namespace kvferry
