// Every bound of the native half, with its unit and reason. The first block mirrors
// `connector-api/src/limits.ts` name by name (k + PascalCase); a test of the package compares the
// two. The second block is ours alone.
#pragma once

#include <cstdint>

namespace kvferry::limits {

// --- mirror of limits.ts ---
inline constexpr uint64_t kIdSizeBytesMax = 256;
inline constexpr uint64_t kAgentMetadataSizeBytesMax = 65'536;
inline constexpr uint64_t kRegionCountMax = 1'024;
inline constexpr uint64_t kBlocksPerPostMax = 65'536;
inline constexpr uint64_t kDescriptorsPerPostMax = 4'194'304;
inline constexpr uint64_t kTransfersInFlightMax = 4'096;
inline constexpr uint64_t kNotificationSizeBytesMax = 512;
inline constexpr uint64_t kNotificationBacklogMax = 65'536;
inline constexpr uint64_t kPeerCountMax = 256;
inline constexpr uint64_t kDrainingTransferCountMax = 1'024;
inline constexpr uint64_t kTransferDeadlineMs = 30'000;
inline constexpr uint64_t kFenceDelayMsMax = 3'600'000;
inline constexpr uint64_t kSlabSizeBytesMin = 4'096;
inline constexpr uint64_t kSlabSizeBytesMax = 268'435'456;
inline constexpr uint64_t kSlabCountMax = 64;
inline constexpr uint64_t kSlabSilenceMs = 30'000;
inline constexpr uint64_t kIpcCtaCountMax = 1'024;

// --- native only ---
/** Commands (register, addPeer, notify, ...) that are queued, running, or done and not yet drained.
 */
inline constexpr uint64_t kCommandsInFlightMax = 1'024;
/** Regions registered with one agent at once; a table has at most kRegionCountMax. */
inline constexpr uint64_t kRegisteredRegionCountMax = 4'096;
/** Block tables alive in one agent, own and imported. */
inline constexpr uint64_t kBlockTableCountMax = 4'096;
/** Fences not yet signalled. */
inline constexpr uint64_t kFenceCountMax = 8'192;
/** Segments on one side of one post. Head slices of the longest block list still fit. */
inline constexpr uint64_t kSegmentsPerPostMax = 1'048'576;
/** Blocks of one region. At 16 tokens a block, a pool of 2^28 tokens. */
inline constexpr uint64_t kBlockCountMax = 16'777'216;
/** JS hands over sizes and offsets as doubles, exact below this. */
inline constexpr uint64_t kSafeIntegerMax = (uint64_t{1} << 53) - 1;
/** Kernel jobs queued, running, or done and not yet drained. */
inline constexpr uint64_t kKernelJobsInFlightMax = 1'024;
/** Token slots of one kernel job. */
inline constexpr uint64_t kSlotsPerKernelJobMax = 4'194'304;
/** Threads of one kernel pool. */
inline constexpr uint64_t kKernelThreadCountMax = 64;
/** Bytes beside a descriptor that is passed on: enough to say which rank's memory it is. */
inline constexpr uint64_t kDescriptorMessageSizeBytesMax = 256;
/** Longest pause between two polls while something is in flight or expected. */
inline constexpr uint64_t kPollPauseUsMax = 300;
/** Pause between polls when only transfers past their deadline are left. */
inline constexpr uint64_t kDrainingPollPauseUs = 5'000;
/**
 * Polling after a message or a new peer. The library tells nobody when a message has left; until
 * the connection is wired up it only waits in a queue, which nothing but polls moves.
 */
inline constexpr uint64_t kFlushMs = 1'000;
/** Borrowers that a lender of slabs knows at once; more than peers, for dead ones are forgotten late. */
inline constexpr uint64_t kSlabBorrowerCountMax = 1'024;
/** How long slabs of a peer are kept without work, so that the next transfer needn't ask for them. */
inline constexpr uint64_t kSlabLingerMs = 10;
/** Pause between looks for dead borrowers, and between looks at a peer that can't be read. */
inline constexpr uint64_t kSlabCheckMs = 50;
/** GPU allocations that an agent offers by CUDA IPC; with their handles they must fit into its metadata. */
inline constexpr uint64_t kIpcMemoryCountMax = 256;
/** Kernels of the path `ipc` that wait in the GPU's queue, one behind the other: enough that none waits for this thread. */
inline constexpr uint64_t kIpcLaunchesMax = 8;
/**
 * After a process has ended, what it had given a GPU to do may go on until the driver has taken its context down, which
 * nobody is told. A queue of kIpcLaunchesMax kernels is over a hundred times sooner.
 */
inline constexpr uint64_t kGpuSettleMs = 1'000;
/** Failed polls in a row after which the agent counts as broken. */
inline constexpr uint64_t kPollFailuresMax = 64;

static_assert(kIdSizeBytesMax + 32 <= kNotificationSizeBytesMax);
static_assert(kDrainingTransferCountMax <= kTransfersInFlightMax);

}  // namespace kvferry::limits
