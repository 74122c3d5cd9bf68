#include "slab_store.h"

#include <cstring>
#include <mutex>
#include <random>
#include <utility>
#include <vector>

#include "limits.h"

namespace kvferry {
namespace {

constexpr uint64_t kRecordsBytes = limits::kSlabCountMax * kSlabRecordBytes;
constexpr uint64_t kMirrorsBytes = limits::kPeerCountMax * kRecordsBytes;
constexpr uint64_t kHugePageBytes = 2 * 1'024 * 1'024;

SlabToken randomToken() {
  std::random_device random;
  SlabToken token;
  for (size_t i = 0; i < token.size(); i += 4) {
    const uint32_t word = random();
    std::memcpy(token.data() + i, &word, sizeof word);
  }
  return token;
}

/** A peer's transfer under way finds the address by itself: the pages must stay what they are. */
void pinForEver(MemoryPin pin) {
  // Never destroyed, and reachable, so that leak checkers see intent.
  static auto* mutex = new std::mutex;
  static auto* pins = new std::vector<MemoryPin>;
  std::lock_guard<std::mutex> lock(*mutex);
  pins->push_back(std::move(pin));
}

}  // namespace

SlabStore::SlabStore(const NixlApi& api, NixlHandle agent, const SlabConfig& config)
    : api_(api), agent_(agent), config_(config) {}

Result SlabStore::create(const NixlApi& api, NixlHandle agent, const SlabConfig& config,
                         std::unique_ptr<SlabStore>* store) {
  std::unique_ptr<SlabStore> made(new SlabStore(api, agent, config));
  const uint64_t slabsBytes = config.slabCount * config.slabBytes;
  const uint64_t bytes = 2 * slabsBytes + kRecordsBytes + kMirrorsBytes;
  Result result = HostMemory::allocate(bytes, config.slabBytes >= kHugePageBytes, &made->memory_);
  if (!result.ok()) return result;
  made->pin_ = MemoryPin(made->memory_);
  // Slabs first: whole huge pages.
  made->lent_ = made->memory_->data();
  made->own_ = made->lent_ + slabsBytes;
  made->records_ = made->own_ + slabsBytes;
  for (uint64_t i = 0; i < limits::kPeerCountMax; i++) {
    made->freeMirrors_.push_back(made->records_ + (i + 1) * kRecordsBytes);
  }
  NixlHandle list = nullptr;
  if (api.create_reg_dlist(kNixlMemoryDram, &list) != kNixlSuccess) {
    return Result::nixlFailure("create_reg_dlist", kNixlBackend);
  }
  made->list_ = NixlRegistrationList(api, list);
  int status =
      api.reg_dlist_add_desc(list, made->memory_->address(), made->memory_->sizeBytes(), 0, nullptr, 0);
  if (status == kNixlSuccess) status = api.register_mem(agent, list, nullptr);
  if (status != kNixlSuccess) return Result::nixlFailure("register_mem", status, "slabs");
  made->facts_ = {randomToken(),    reinterpret_cast<uint64_t>(made->records_),
                  reinterpret_cast<uint64_t>(made->lent_), config.slabBytes,
                  config.slabCount, ownProcess()};
  *store = std::move(made);
  return Result::success();
}

uint8_t* SlabStore::takeMirror() {
  if (freeMirrors_.empty()) return nullptr;
  uint8_t* mirror = freeMirrors_.back();
  freeMirrors_.pop_back();
  return mirror;
}

void SlabStore::close(bool isLeaked) {
  if (list_) api_.deregister_mem(agent_, list_.get(), nullptr);
  list_.reset();
  if (isLeaked) pinForEver(std::move(pin_));
  pin_.reset();
}

}  // namespace kvferry
