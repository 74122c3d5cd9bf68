#include "slab_wire.h"

#include <cstring>

#include "limits.h"
#include "wire_bytes.h"

namespace kvferry {
namespace {

constexpr uint32_t kFactsMagic = 0x4C53564B;  // "KVSL"
/**
 * Version history: 1, first. Above it stands the number of the GPU plus one where the slabs lie on one, which whoever
 * knows only slabs of the host takes for a version that it doesn't know.
 */
constexpr uint32_t kFactsVersion = 1;
constexpr uint32_t kDeviceShift = 16;
constexpr size_t kFactsBytes = 16 + 7 * 8 + 2 * 4;

bool isPlausible(const SlabFacts& facts) {
  uint64_t end = 0;
  return facts.slabCount >= 1 && facts.slabCount <= limits::kSlabCountMax &&
         facts.slabBytes >= limits::kSlabSizeBytesMin &&
         facts.slabBytes <= limits::kSlabSizeBytesMax && facts.slabBytes % 8 == 0 &&
         !__builtin_add_overflow(facts.slabsAddress, facts.slabCount * facts.slabBytes, &end) &&
         !__builtin_add_overflow(facts.recordsAddress, facts.slabCount * kSlabRecordBytes, &end);
}

uint64_t mix(uint64_t digest, uint64_t word) { return (digest ^ word) * 0x9E3779B97F4A7C15; }

/** Words of a record: version, owner, generation, turn, the rest packed, digest, zero, version. */
constexpr size_t kRecordWords = kSlabRecordBytes / 8;

uint64_t digestOf(const std::array<uint64_t, kRecordWords>& words) {
  uint64_t digest = 0;
  for (size_t i = 0; i < 5; i++) digest = mix(digest, words[i]);
  return digest;
}

}  // namespace

void appendSlabFacts(const SlabFacts& facts, std::vector<uint8_t>* metadata) {
  if (facts.slabCount == 0) return;
  const size_t start = metadata->size();
  metadata->resize(start + kFactsBytes);
  uint8_t* to = metadata->data() + start;
  putField(&to, facts.token);
  for (const uint64_t value : {facts.recordsAddress, facts.slabsAddress, facts.slabBytes,
                               facts.slabCount, facts.process.machine, facts.process.pid,
                               facts.process.startTime}) {
    putField(&to, value);
  }
  const bool isDevice = facts.place.kind == MemoryKind::kDevice;
  putField(&to, kFactsVersion | (isDevice ? (facts.place.device + 1) << kDeviceShift : 0));
  putField(&to, kFactsMagic);
}

size_t splitSlabFacts(const uint8_t* metadata, size_t sizeBytes, SlabFacts* facts) {
  *facts = {};
  if (sizeBytes < kFactsBytes) return sizeBytes;
  const uint8_t* from = metadata + sizeBytes - 8;
  const auto version = getField<uint32_t>(&from);
  if (getField<uint32_t>(&from) != kFactsMagic) return sizeBytes;
  const size_t ownSize = sizeBytes - kFactsBytes;
  if ((version & ((1u << kDeviceShift) - 1)) != kFactsVersion) return ownSize;
  from = metadata + ownSize;
  SlabFacts found;
  found.token = getField<SlabToken>(&from);
  for (uint64_t* value : {&found.recordsAddress, &found.slabsAddress, &found.slabBytes,
                          &found.slabCount, &found.process.machine, &found.process.pid,
                          &found.process.startTime}) {
    *value = getField<uint64_t>(&from);
  }
  const uint32_t device = version >> kDeviceShift;
  if (device > 0) found.place = {MemoryKind::kDevice, device - 1};
  if (isPlausible(found)) *facts = found;
  return ownSize;
}

void publishSlabRecord(const SlabRecord& record, uint64_t version, uint8_t* at) {
  std::array<uint64_t, kRecordWords> words = {};
  words[0] = version;
  words[1] = record.owner;
  words[2] = record.generation;
  words[3] = record.turn;
  words[4] = static_cast<uint64_t>(record.state) | static_cast<uint64_t>(record.answer) << 8 |
             uint64_t{record.isRecalled} << 16 | uint64_t{record.isRefusing} << 17;
  words[5] = digestOf(words);
  words[7] = version;
  auto* to = reinterpret_cast<uint64_t*>(at);
  for (size_t i = 0; i < kRecordWords; i++) __atomic_store_n(to + i, words[i], __ATOMIC_RELEASE);
}

bool parseSlabRecord(const uint8_t* at, SlabRecord* record) {
  std::array<uint64_t, kRecordWords> words;
  std::memcpy(words.data(), at, sizeof words);
  if (words[0] != words[7] || words[5] != digestOf(words)) return false;
  record->owner = words[1];
  record->generation = words[2];
  record->turn = words[3];
  record->state = (words[4] & 0xFF) == 1 ? SlabState::kLent : SlabState::kFree;
  record->answer = static_cast<SlabAnswer>(words[4] >> 8 & 0xFF);
  record->isRecalled = (words[4] >> 16 & 1) != 0;
  record->isRefusing = (words[4] >> 17 & 1) != 0;
  return true;
}

SlabMessageFrame encodeSlabMessage(const SlabToken& token, const SlabMessage& message) {
  SlabMessageFrame frame;
  uint8_t* to = frame.data();
  putField(&to, token);
  putField(&to, static_cast<uint32_t>(message.kind));
  putField(&to, message.slab);
  for (const uint64_t value :
       {message.owner, message.generation, message.turn, message.payloadBytes, message.listBytes,
        message.count, message.process.machine, message.process.pid, message.process.startTime}) {
    putField(&to, value);
  }
  return frame;
}

bool isSlabMessage(const SlabToken& token, const uint8_t* bytes, size_t sizeBytes) noexcept {
  return sizeBytes == kSlabMessageBytes && std::memcmp(bytes, token.data(), token.size()) == 0;
}

bool decodeSlabMessage(const uint8_t* bytes, SlabMessage* message) {
  const uint8_t* from = bytes + sizeof(SlabToken);
  const auto kind = getField<uint32_t>(&from);
  if (kind < 1 || kind > 4) return false;
  message->kind = static_cast<SlabMessageKind>(kind);
  message->slab = getField<uint32_t>(&from);
  for (uint64_t* value : {&message->owner, &message->generation, &message->turn,
                          &message->payloadBytes, &message->listBytes, &message->count,
                          &message->process.machine, &message->process.pid,
                          &message->process.startTime}) {
    *value = getField<uint64_t>(&from);
  }
  return true;
}

size_t writePieceList(const std::vector<SlabPiece>& pieces, const std::vector<bool>& startsRun,
                      uint8_t* to) {
  uint8_t* at = to;
  uint8_t* countAt = nullptr;
  uint64_t count = 0;
  for (size_t i = 0; i < pieces.size(); i++) {
    if (startsRun[i]) {
      putField(&at, pieces[i].bytes);
      countAt = at;
      at += sizeof count;
      count = 0;
    }
    putField(&at, pieces[i].address);
    count += 1;
    std::memcpy(countAt, &count, sizeof count);
  }
  return static_cast<size_t>(at - to);
}

bool readPieceList(const uint8_t* from, size_t sizeBytes, uint64_t payloadBytes,
                   std::vector<SlabPiece>* pieces) {
  pieces->clear();
  const uint8_t* const end = from + sizeBytes;
  uint64_t left = payloadBytes;
  while (from < end) {
    if (static_cast<size_t>(end - from) < kSlabRunBytes) return false;
    const auto bytes = getField<uint64_t>(&from);
    const auto count = getField<uint64_t>(&from);
    const auto room = static_cast<uint64_t>(end - from) / kSlabPieceBytes;
    if (bytes == 0 || count == 0 || count > room || bytes > left / count) return false;
    left -= bytes * count;
    for (uint64_t i = 0; i < count; i++) {
      const auto address = getField<uint64_t>(&from);
      if (address + bytes < address) return false;
      pieces->push_back({address, bytes});
    }
  }
  return left == 0;
}

uint64_t SlabFill::offer(uint64_t bytes, bool* startsRun) {
  *startsRun = bytes != runBytes_;
  const uint64_t cost = kSlabPieceBytes + (*startsRun ? kSlabRunBytes : 0);
  if (bytes <= slabBytes_ &&
      alignedSlabBytes(payloadBytes_ + bytes) + listBytes_ + cost <= slabBytes_) {
    payloadBytes_ += bytes;
    listBytes_ += cost;
    runBytes_ = bytes;
    return bytes;
  }
  // What still fits of it starts a run of its own, as its length is none that was before.
  *startsRun = true;
  const uint64_t used = listBytes_ + kSlabRunBytes + kSlabPieceBytes;
  const uint64_t end = used < slabBytes_ ? (slabBytes_ - used) / 8 * 8 : 0;
  if (end <= payloadBytes_) return 0;
  const uint64_t room = end - payloadBytes_;
  if (room >= bytes) return 0;
  payloadBytes_ += room;
  listBytes_ += kSlabRunBytes + kSlabPieceBytes;
  runBytes_ = 0;
  return room;
}

}  // namespace kvferry
