// One NIXL agent and the one thread that touches it. The binding calls the methods from the JS
// thread (one thread at a time per agent); none waits for the network, except `postAll` with
// `isWaitUntilPosted` and `shutdownNow`, both bounded. Handles are numbers below 2^53 with a kind
// and a generation; a stale, foreign or wrong one is kInvalidHandle, never followed.
//
// Wake model of the thread: nothing open and nothing expected = asleep on a condition variable, no
// CPU. Something in flight or expected = it polls the library, first yielding, then with pauses
// that grow to kPollPauseUsMax; a post that waits for an event of the GPU counts as that. For a while after a message of its own, which may still have to leave,
// it polls once a millisecond. A signalled fence wakes it only if posts wait behind it. NIXL's own
// progress thread is off.
//
// It decides nothing: no retries, leases, matching or policy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "completion_sink.h"
#include "ipc_config.h"
#include "memory.h"
#include "limits.h"
#include "nixl_api.h"
#include "process_id.h"
#include "slab_config.h"
#include "status.h"

namespace kvferry {

class CudaDevice;
class CudaEvent;

struct AgentConfig {
  /** Non-empty, at most kIdSizeBytesMax bytes. */
  std::string name;
  std::shared_ptr<const NixlApi> api;
  /** In order of creation, for example {"UCX"}. */
  std::vector<std::string> backends;
  SlabConfig slabs{};
  /** Whose memory this agent moves, and where its slabs lie; null: the host's. */
  std::shared_ptr<CudaDevice> device;
  /** Needs `device`. */
  IpcConfig ipc{};
};

/** Names one asynchronous command; its CommandCompletion carries the same number. Never 0. */
using Ticket = uint64_t;

enum class Direction : uint8_t { kRead, kWrite };
/** How the bytes of a transfer travel. In the order of `NativePosts`. */
enum class Path : uint8_t { kDescriptors, kSlabs, kIpc };

/** One region of a table over own regions (`BlockTableRegion` of the contract). */
struct BlockRegionSpec {
  uint64_t region = 0;
  uint64_t offsetBytes = 0;
  uint64_t blockSizeBytes = 0;
  uint64_t blockStrideBytes = 0;
  uint64_t blockCount = 0;
};

/** One side of a post, borrowed from the caller for the length of the call. */
struct SideView {
  uint64_t table = 0;
  bool isSegments = false;
  /** Number of block ids, or of segments. */
  size_t count = 0;
  const uint32_t* blockIds = nullptr;
  const uint32_t* regions = nullptr;
  /** Safe integers; anything else (fractions, NaN, negative) is kOutOfRange. */
  const double* offsets = nullptr;
  const double* lengths = nullptr;
};

/** One post, borrowed from the caller for the length of the call. */
struct PostView {
  Direction direction = Direction::kRead;
  uint64_t peer = 0;
  SideView local;
  SideView remote;
  bool hasFence = false;
  uint64_t fence = 0;
  bool hasNotification = false;
  const uint8_t* notification = nullptr;
  size_t notificationSizeBytes = 0;
  /** From enqueueing. A post not yet handed to the network by then fails (final), instead of
   * overdue. */
  uint64_t deadlineMs = limits::kTransferDeadlineMs;
  /** kUnsupported where one of the two agents doesn't have it (`pathsTo`). */
  Path path = Path::kDescriptors;
};

struct CommandCompletion {
  Ticket ticket = 0;
  Result result;
  /** Region or peer handle of registerRegion and addPeer. */
  uint64_t handle = 0;
  /** localMetadata: the blob. */
  std::vector<uint8_t> bytes;
  /** close: transfers that never ended. Their memory stays pinned and the agent alive for ever. */
  uint64_t leakedTransfers = 0;
};

enum class TransferOutcome : uint8_t { kDone, kFailed, kOverdue };

struct TransferCompletion {
  uint64_t handle = 0;
  TransferOutcome outcome = TransferOutcome::kDone;
  Direction direction = Direction::kRead;
  /** Name of the peer's agent, for the error. */
  std::string peer;
  /** Not ok for kFailed (kNixl, kDeadline, kClosed) and kOverdue (kDeadline; `value` = deadlineMs).
   */
  Result result;
  /** Until it is taken up to be posted: what waits for a fence is prepared meanwhile. */
  double queuedUs = 0;
  /** Of `postUs`: mapping, merging and building the request, where that was still to be done. */
  double prepareUs = 0;
  double postUs = 0;
  double wireUs = 0;
  uint64_t descriptorsBeforeMerge = 0;
  uint64_t descriptorsAfterMerge = 0;
  uint64_t bytes = 0;
};

struct NotificationMessage {
  std::string from;
  std::vector<uint8_t> message;
};

/** What `drain` hands over. Deliver transfers before commands: a close completes after its
 * transfers. */
struct AgentEvents {
  std::vector<TransferCompletion> transfers;
  std::vector<NotificationMessage> notifications;
  std::vector<CommandCompletion> commands;
  /** Once in an agent's life. */
  bool isBroken = false;
  Result broken;

  bool isEmpty() const noexcept {
    return transfers.empty() && notifications.empty() && commands.empty() && !isBroken;
  }
};

struct AgentCounters {
  uint64_t transfersPosted = 0;
  uint64_t transfersDone = 0;
  uint64_t transfersFailed = 0;
  /** Enqueued and without final status; includes the draining ones. */
  uint64_t transfersOpen = 0;
  uint64_t transfersDraining = 0;
  uint64_t notificationsReceived = 0;
  uint64_t notificationsDropped = 0;
  uint64_t bytesMoved = 0;
  uint64_t polls = 0;
  uint64_t slabsLent = 0;
  uint64_t slabsSuspect = 0;
  uint64_t slabsMoved = 0;
  uint64_t transfersByIpc = 0;
};

/** Beside descriptors, which there always are. */
struct PeerPaths {
  bool hasSlabs = false;
  bool hasIpc = false;
};

struct BlockTableDescription {
  uint64_t blockCount = 0;
  std::vector<uint64_t> blockSizesBytes;
};

/** Shared with the thread (agent_core.h). */
class AgentCore;

class Agent {
 public:
  /**
   * Starts the thread, which creates the NIXL agent and its backends; `ready` completes with the
   * outcome (kNixl; the agent is then useless and only close remains). Everything may be called
   * before that. The sink must outlive the Agent. kOutOfRange for the name.
   */
  static Result create(AgentConfig config, CompletionSink& sink, std::unique_ptr<Agent>* agent,
                       Ticket* ready);

  /** As `shutdownNow(kShutdownWaitMs)`. */
  ~Agent();
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  const std::string& name() const noexcept;

  // --- asynchronous: ok = enqueued, one CommandCompletion follows; otherwise nothing happened ---
  // All may also answer kLimit (commandsInFlightMax), kClosed, kBroken.

  /** kOutOfRange: bounds; kClosed: the memory was freed. Pins the memory until deregistered. */
  Result registerRegion(std::shared_ptr<Memory> memory, uint64_t offsetBytes,
                        uint64_t lengthBytes, Ticket* ticket);
  /** kBusy while a table uses it (a transfer uses tables). The handle is invalid from here on. */
  Result deregisterRegion(uint64_t region, Ticket* ticket);
  Result localMetadata(Ticket* ticket);
  /**
   * kMessageInvalid: size. Completes with kMessageInvalid, kPeerMismatch, kNixl, kLimit, or kBusy:
   * a peer of this name was removed or replaced, and a transfer with it is still open. Adding a
   * name again replaces the peer: the older handle and its tables are forgotten.
   */
  Result addPeer(const uint8_t* metadata, size_t sizeBytes, std::string expectedName,
                 Ticket* ticket);
  /**
   * At once: handle and imported tables are invalid. Completes soon, also while transfers are open:
   * they stay tracked, and the library forgets the peer only after the last. A handle that was
   * removed before completes with ok; kInvalidHandle for one that never was a peer.
   */
  Result removePeer(uint64_t peer, Ticket* ticket);
  /** Proof: see `TransferAgent.processEnded`. An agent with a GPU completes it kGpuSettleMs later. */
  Result processEnded(const ProcessId& process, Ticket* ticket);
  /** kOutOfRange: size. Completes when handed to the network. */
  Result notify(uint64_t peer, const uint8_t* message, size_t sizeBytes, Ticket* ticket);
  /**
   * No further intake (`signalFence`, `drain`, `counters`, `releaseBlockTable` still work). Waits
   * for open transfers; posts that still wait for a fence at the deadline fail. If a transfer has
   * no final status by then, agent and memory are leaked on purpose (`leakedTransfers`), because it
   * may still write. A second call: kClosed.
   */
  Result close(uint64_t deadlineMs, Ticket* ticket);

  // --- synchronous ---

  /** kInvalidHandle, kOutOfRange (bounds, overlapping regions, no region), kLimit. */
  Result declareBlockTable(const std::vector<BlockRegionSpec>& regions, uint64_t* table);
  /** kInvalidHandle; also for an imported table. */
  Result exportBlockTable(uint64_t table, std::vector<uint8_t>* exported) const;
  /** kMessageInvalid, kInvalidHandle (peer), kLimit. */
  Result importBlockTable(uint64_t peer, const uint8_t* exported, size_t sizeBytes,
                          uint64_t* table);
  Result describeBlockTable(uint64_t table, BlockTableDescription* description) const;
  /** Ok for a table that was released before (idempotent); kBusy while a transfer uses it. */
  Result releaseBlockTable(uint64_t table);

  /** kInvalidHandle. */
  Result pathsTo(uint64_t peer, PeerPaths* paths) const;
  Result createFence(uint64_t* fence);
  /**
   * At once, or `delayUs` from now by the agent's thread; of several calls the earliest moment counts.
   * Ok for a fence that was signalled before; kInvalidHandle for one that never was made.
   */
  Result signalFence(uint64_t fence, uint64_t delayUs = 0);
  /**
   * Once the GPU has done what comes before the event, as the agent's thread asks while a post waits for it. If the
   * GPU fails first, what waits and will wait for the fence ends failed (kCuda). kUnsupported: not an event of the
   * agent's GPU; kOutOfRange: never recorded, or the fence has an event already.
   */
  Result signalFenceAfter(uint64_t fence, std::shared_ptr<CudaEvent> event);

  /**
   * Checks all, then enqueues all or none; one handle per post in `handles`. kLimit for
   * transfersInFlightMax (which counts completions not yet drained), drainingTransferCountMax,
   * blocksPerPostMax, descriptorsPerPostMax. `index` of the offending post is in `value` for
   * kOutOfRange and kInvalidHandle.
   * `isWaitUntilPosted`: returns when the thread has posted them, at the latest at their deadline.
   * Posts behind an unsignalled fence aren't waited for: only the waiting thread could signal it.
   */
  Result postAll(const PostView* posts, size_t count, bool isWaitUntilPosted, uint64_t* handles);

  void expectNotifications(bool isExpected);
  AgentCounters counters() const;

  /** Moves what is done to the ends of the vectors of `events`. */
  void drain(AgentEvents* events);

  /**
   * For the end of the environment: stops intake, gives open transfers `waitMs` to end, destroys
   * the agent, joins. If that doesn't end in time (a call of the library blocks, a transfer never
   * ends), thread, agent and pinned memory are leaked on purpose. No notify after it returns.
   * Idempotent. True: the thread ended and nothing was leaked.
   */
  bool shutdownNow(uint64_t waitMs);

  static constexpr uint64_t kShutdownWaitMs = 2'000;

 private:
  explicit Agent(std::shared_ptr<AgentCore> core);
  std::shared_ptr<AgentCore> core_;
};

}  // namespace kvferry
