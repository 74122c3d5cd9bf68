// What agents say about slabs: round trips, and hostile bytes.
#include "../slab_wire.h"

#include <random>

#include "../limits.h"
#include "check.h"

using namespace kvferry;

TEST("slab wire: a list of pieces comes back as it was, whatever its lengths") {
  std::mt19937_64 random(7);
  for (int round = 0; round < 300; round++) {
    SlabFill fill(2'048);
    std::vector<SlabPiece> pieces;
    std::vector<bool> starts;
    for (;;) {
      const uint64_t bytes = random() % 3 == 0 ? 64 : random() % 200 + 1;
      bool startsRun = false;
      const uint64_t taken = fill.offer(bytes, &startsRun);
      if (taken > 0) {
        pieces.push_back({random() % 1'000'000, taken});
        starts.push_back(startsRun);
      }
      if (taken < bytes) break;
    }
    std::vector<uint8_t> list(fill.listBytes());
    REQUIRE(writePieceList(pieces, starts, list.data()) == list.size());
    CHECK(alignedSlabBytes(fill.payloadBytes()) + list.size() <= 2'048);
    std::vector<SlabPiece> read;
    REQUIRE(readPieceList(list.data(), list.size(), fill.payloadBytes(), &read));
    REQUIRE(read.size() == pieces.size());
    for (size_t i = 0; i < read.size(); i++) {
      CHECK_EQ(read[i].address, pieces[i].address);
      CHECK_EQ(read[i].bytes, pieces[i].bytes);
    }
    CHECK(!readPieceList(list.data(), list.size(), fill.payloadBytes() + 1, &read));
    CHECK(!readPieceList(list.data(), list.size() - 8, fill.payloadBytes(), &read));
  }
}

TEST("slab wire: lists that make no sense are refused") {
  std::vector<SlabPiece> pieces;
  const auto isRead = [&](std::vector<uint64_t> words, uint64_t payload) {
    return readPieceList(reinterpret_cast<const uint8_t*>(words.data()), words.size() * 8, payload,
                         &pieces);
  };
  CHECK(isRead({8, 1, 4'096}, 8));
  CHECK(!isRead({0, 1, 4'096}, 0));                       // a piece of nothing
  CHECK(!isRead({8, 0}, 0));                              // a run of none
  CHECK(!isRead({8, 2, 4'096}, 16));                      // fewer than it says
  CHECK(!isRead({8, ~uint64_t{0}, 4'096}, 8));            // so many that their bytes wrap
  CHECK(!isRead({uint64_t{1} << 63, 2, 1, 2}, 0));        // so long that their bytes wrap
  CHECK(!isRead({16, 1, ~uint64_t{0} - 7}, 16));          // an address that wraps
  CHECK(!isRead({}, 8));
}

TEST("slab wire: random bytes are no list that the lender could be misled by") {
  std::mt19937_64 random(11);
  std::vector<SlabPiece> pieces;
  for (int round = 0; round < 20'000; round++) {
    uint64_t words[6];
    for (uint64_t& word : words) word = random() >> (random() % 64);
    const uint64_t payload = words[5] % 256;
    const size_t size = random() % 41;
    if (!readPieceList(reinterpret_cast<const uint8_t*>(words), size, payload, &pieces)) continue;
    uint64_t sum = 0;
    for (const SlabPiece& piece : pieces) {
      CHECK(piece.bytes > 0 && piece.address + piece.bytes > piece.address);
      sum += piece.bytes;
    }
    CHECK_EQ(sum, payload);
  }
}

TEST("slab wire: facts travel behind the library's metadata, and nonsense there means no slabs") {
  SlabFacts facts;
  for (size_t i = 0; i < facts.token.size(); i++) facts.token[i] = static_cast<uint8_t>(i);
  facts.recordsAddress = 4'096;
  facts.slabsAddress = 8'192;
  facts.slabBytes = 4'096;
  facts.slabCount = 3;
  facts.process = {1, 2, 3};
  const std::vector<uint8_t> blob = {1, 2, 3};
  std::vector<uint8_t> metadata = blob;
  appendSlabFacts(facts, &metadata);
  SlabFacts found;
  CHECK_EQ(splitSlabFacts(metadata.data(), metadata.size(), &found), blob.size());
  CHECK(found.token == facts.token && found.process == facts.process);
  CHECK_EQ(found.recordsAddress, 4'096u);
  CHECK_EQ(found.slabsAddress, 8'192u);
  CHECK_EQ(found.slabBytes, 4'096u);
  CHECK_EQ(found.slabCount, 3u);
  CHECK_EQ(splitSlabFacts(blob.data(), blob.size(), &found), blob.size());
  CHECK_EQ(found.slabCount, 0u);
  for (const uint64_t address : {~uint64_t{0}, ~uint64_t{0} - 8'192}) {
    facts.slabsAddress = address;
    metadata = blob;
    appendSlabFacts(facts, &metadata);
    CHECK_EQ(splitSlabFacts(metadata.data(), metadata.size(), &found), blob.size());
    CHECK_EQ(found.slabCount, 0u);
  }
}

TEST("slab wire: a record half written is noticed") {
  SlabRecord record;
  record.owner = 5;
  record.generation = 6;
  record.turn = 7;
  record.state = SlabState::kLent;
  record.answer = SlabAnswer::kDone;
  record.isRecalled = true;
  alignas(8) uint8_t older[kSlabRecordBytes];
  alignas(8) uint8_t newer[kSlabRecordBytes];
  publishSlabRecord(record, 1, older);
  record.turn = 8;
  publishSlabRecord(record, 2, newer);
  SlabRecord read;
  REQUIRE(parseSlabRecord(newer, &read));
  CHECK_EQ(read.owner, 5u);
  CHECK_EQ(read.generation, 6u);
  CHECK_EQ(read.turn, 8u);
  CHECK(read.state == SlabState::kLent && read.answer == SlabAnswer::kDone && read.isRecalled);
  for (size_t words = 1; words < kSlabRecordBytes / 8; words++) {
    alignas(8) uint8_t mixed[kSlabRecordBytes];
    for (size_t i = 0; i < sizeof mixed; i++) mixed[i] = i < words * 8 ? newer[i] : older[i];
    CHECK(!parseSlabRecord(mixed, &read));
  }
}

TEST("slab wire: messages without the token are none") {
  SlabToken token{};
  token[3] = 9;
  SlabMessage message;
  message.kind = SlabMessageKind::kFull;
  message.slab = 2;
  message.listBytes = 77;
  SlabMessageFrame frame = encodeSlabMessage(token, message);
  CHECK(isSlabMessage(token, frame.data(), frame.size()));
  CHECK(!isSlabMessage(token, frame.data(), frame.size() - 1));
  SlabMessage read;
  REQUIRE(decodeSlabMessage(frame.data(), &read));
  CHECK(read.kind == SlabMessageKind::kFull);
  CHECK_EQ(read.slab, 2u);
  CHECK_EQ(read.listBytes, 77u);
  frame[16] = 9;
  CHECK(!decodeSlabMessage(frame.data(), &read));
  frame[3] = 8;
  CHECK(!isSlabMessage(token, frame.data(), frame.size()));
}
