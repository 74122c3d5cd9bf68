// Sides of a transfer whose blocks have one size, as kernels read them: where the regions lie, and the block ids, in memory
// of the GPU. From these a kernel computes every address itself.
#pragma once

#include <cstdint>

#include "cuda/kernel_arguments.h"
#include "cuda_lane.h"
#include "transfer_plan.h"

namespace kvferry {

/** The blocks of all regions have one size. */
bool isEven(const PlanSide& side) noexcept;

/** What `putStream` takes of a lane. */
uint64_t streamBytes(const PlanSide& side) noexcept;

/** Writes an even side's arrays where `lane` uploads them from; the stream names where they will be on the GPU. */
kernels::BlockStream putStream(const PlanSide& side, const CudaLane& lane, uint64_t at);

}  // namespace kvferry
