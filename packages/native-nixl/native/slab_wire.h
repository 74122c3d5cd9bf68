// What agents say to each other about slabs: the facts in an agent's metadata, the records that a
// lender shows (its borrowers READ them; nothing is ever sent back), the messages of a borrower, and
// the list of pieces that stands behind a slab's payload. Pure codecs, little-endian. Whoever decodes
// gets checked values; whether addresses are registered is for the lender to say.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "memory.h"
#include "process_id.h"

namespace kvferry {

using SlabToken = std::array<uint8_t, 16>;

/** What an agent lends, for its peers. Travels behind the library's own metadata. */
struct SlabFacts {
  /** Known only to those that were let in: a message without it is none. */
  SlabToken token = {};
  /** Of the records, one per slab, `kSlabRecordBytes` each. */
  uint64_t recordsAddress = 0;
  /** Of the lent slabs, one after the other. */
  uint64_t slabsAddress = 0;
  uint64_t slabBytes = 0;
  /** 0: lends none. */
  uint64_t slabCount = 0;
  ProcessId process;
  /** Of the slabs; records are always the host's. */
  MemoryPlace place;
};

/** Appends; nothing where nothing is lent. */
void appendSlabFacts(const SlabFacts& facts, std::vector<uint8_t>* metadata);
/** The size of the library's part. `facts` has no slabs where there is nothing behind it, or nonsense. */
size_t splitSlabFacts(const uint8_t* metadata, size_t sizeBytes, SlabFacts* facts);

enum class SlabState : uint8_t { kFree = 0, kLent = 1 };
enum class SlabAnswer : uint8_t { kNone = 0, kDone = 1, kMalformed = 2, kNotRegistered = 3, kFailed = 4 };

constexpr size_t kSlabRecordBytes = 64;

/** What a lender shows of one slab. */
struct SlabRecord {
  uint64_t owner = 0;
  /** How often it was lent. */
  uint64_t generation = 0;
  /** Number of the last message of this owner about this slab that was worked on. */
  uint64_t turn = 0;
  SlabState state = SlabState::kFree;
  SlabAnswer answer = SlabAnswer::kNone;
  /** Others wait: give it back after use. */
  bool isRecalled = false;
  /** No slab is in service: whoever has none is refused. */
  bool isRefusing = false;
};

/** Word by word, so that a reader in this process sees no race; it notices a record half written. */
void publishSlabRecord(const SlabRecord& record, uint64_t version, uint8_t* at);
/** False: it was being written. */
bool parseSlabRecord(const uint8_t* at, SlabRecord* record);

enum class SlabMessageKind : uint32_t {
  /** How many slabs the borrower wants to hold at once. 0: it gives back all that it has. */
  kWant = 1,
  kReturn = 2,
  /** The slab is full: put its pieces in place. */
  kFull = 3,
  /** The slab's list is there: fill it. */
  kFill = 4,
};

struct SlabMessage {
  SlabMessageKind kind = SlabMessageKind::kWant;
  uint32_t slab = 0;
  uint64_t owner = 0;
  uint64_t generation = 0;
  uint64_t turn = 0;
  uint64_t payloadBytes = 0;
  uint64_t listBytes = 0;
  /** Of `kWant`: slabs. Of `kFull` and `kFill`: runs of the list, which a GPU may then read itself; 0: not said. */
  uint64_t count = 0;
  ProcessId process;
};

constexpr size_t kSlabMessageBytes = 16 + 8 + 9 * 8;
using SlabMessageFrame = std::array<uint8_t, kSlabMessageBytes>;

SlabMessageFrame encodeSlabMessage(const SlabToken& token, const SlabMessage& message);
bool isSlabMessage(const SlabToken& token, const uint8_t* bytes, size_t sizeBytes) noexcept;
/** Of bytes that are one. False: a kind that isn't known. */
bool decodeSlabMessage(const uint8_t* bytes, SlabMessage* message);

struct SlabPiece {
  uint64_t address = 0;
  uint64_t bytes = 0;
};

constexpr uint64_t kSlabRunBytes = 16;
constexpr uint64_t kSlabPieceBytes = 8;
constexpr uint64_t alignedSlabBytes(uint64_t bytes) noexcept { return (bytes + 7) / 8 * 8; }

/** Writes `pieces` as runs: those that start one are marked. At most as many bytes as the plan says. */
size_t writePieceList(const std::vector<SlabPiece>& pieces, const std::vector<bool>& startsRun,
                      uint8_t* to);
/** False for anything else than a list of non-empty pieces of `payloadBytes` in all that don't wrap. */
bool readPieceList(const uint8_t* from, size_t sizeBytes, uint64_t payloadBytes,
                   std::vector<SlabPiece>* pieces);

/**
 * Which pieces a slab takes: the rule of connector-api's slab-plan.ts. Offer pieces in stream order
 * until one isn't taken whole; then the slab is full.
 */
class SlabFill {
 public:
  explicit SlabFill(uint64_t slabBytes) : slabBytes_(slabBytes) {}
  /** How much of a piece of `bytes` is taken. */
  uint64_t offer(uint64_t bytes, bool* startsRun);
  uint64_t payloadBytes() const noexcept { return payloadBytes_; }
  uint64_t listBytes() const noexcept { return listBytes_; }

 private:
  uint64_t slabBytes_;
  uint64_t payloadBytes_ = 0;
  uint64_t listBytes_ = 0;
  uint64_t runBytes_ = 0;
};

}  // namespace kvferry
