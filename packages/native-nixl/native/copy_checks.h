// What copy tasks refuse. Pure checks of layouts and block ids, in time that doesn't grow with
// blocks times regions: they run on the JS thread.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "kernel_task.h"

namespace kvferry {

/** Regions within their memory, ids within the regions, counts within limits. */
Result checkBlocks(const std::vector<KernelRegion>& regions, const std::vector<uint32_t>& blockIds);

/** No id twice, and no two regions of which blocks share a byte: each byte is written once. */
Result checkWrittenOnce(const std::vector<KernelRegion>& regions,
                        const std::vector<uint32_t>& blockIds);

/** Block id to the index of the only target block that its tokens go to, or kSeveralTargets. */
using TargetsOfSource = std::unordered_map<uint32_t, uint64_t>;
inline constexpr uint64_t kSeveralTargets = ~uint64_t{0};

/**
 * Refuses a source block that shares bytes with a target block, except in the same region the one
 * that it goes to. `isInPlace` tells whether there is such a pair. `targets`: id to index.
 */
Result checkOverlap(const std::vector<KernelRegion>& from, const TargetsOfSource& sources,
                    const std::vector<KernelRegion>& to,
                    const std::unordered_map<uint32_t, uint64_t>& targets, bool* isInPlace);

}  // namespace kvferry
