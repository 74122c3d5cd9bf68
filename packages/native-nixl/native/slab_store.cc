#include "slab_store.h"

#include <cstring>
#include <mutex>
#include <random>
#include <utility>
#include <vector>

#include "device_memory.h"
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

SlabStore::SlabStore(const NixlApi& api, NixlHandle agent, const SlabConfig& config,
                     const std::shared_ptr<CudaDevice>& device)
    : api_(api), agent_(agent), config_(config), mover_(device) {}

Result SlabStore::create(const NixlApi& api, NixlHandle agent, const SlabConfig& config,
                         const std::shared_ptr<CudaDevice>& device,
                         std::unique_ptr<SlabStore>* store) {
  std::unique_ptr<SlabStore> made(new SlabStore(api, agent, config, device));
  const uint64_t slabsBytes = config.slabCount * config.slabBytes;
  const uint64_t hostBytes = (device == nullptr ? 2 * slabsBytes : 0) + kRecordsBytes + kMirrorsBytes;
  std::shared_ptr<HostMemory> host;
  const bool isHuge = device == nullptr && config.slabBytes >= kHugePageBytes;
  Result result = HostMemory::allocate(hostBytes, isHuge, &host);
  if (!result.ok()) return result;
  // Slabs first: whole huge pages.
  made->lent_ = host->address();
  made->records_ = host->data() + (device == nullptr ? 2 * slabsBytes : 0);
  result = made->enrol(std::move(host));
  MemoryPlace place;
  if (result.ok() && device != nullptr) {
    std::shared_ptr<DeviceMemory> slabs;
    result = DeviceMemory::allocate(device, 2 * slabsBytes, &slabs);
    if (!result.ok()) return result;
    made->lent_ = slabs->address();
    place = slabs->place();
    result = made->enrol(std::move(slabs));
  }
  if (!result.ok()) return result;
  made->own_ = made->lent_ + slabsBytes;
  for (uint64_t i = 0; i < limits::kPeerCountMax; i++) {
    made->freeMirrors_.push_back(made->records_ + (i + 1) * kRecordsBytes);
  }
  made->facts_ = {randomToken(),    reinterpret_cast<uint64_t>(made->records_), made->lent_,
                  config.slabBytes, config.slabCount, ownProcess(), place};
  *store = std::move(made);
  return Result::success();
}

Result SlabStore::enrol(std::shared_ptr<Memory> memory) {
  NixlHandle list = nullptr;
  const MemoryPlace place = memory->place();
  if (api_.create_reg_dlist(nixlMemory(place), &list) != kNixlSuccess) {
    return Result::nixlFailure("create_reg_dlist", kNixlBackend);
  }
  Part part;
  part.memory = memory;
  part.pin = MemoryPin(memory);
  part.list = NixlRegistrationList(api_, list);
  int status = api_.reg_dlist_add_desc(list, memory->address(), memory->sizeBytes(), place.device,
                                       nullptr, 0);
  if (status == kNixlSuccess) status = api_.register_mem(agent_, list, nullptr);
  if (status != kNixlSuccess) return Result::nixlFailure("register_mem", status, "slabs");
  parts_.push_back(std::move(part));
  return Result::success();
}

uint8_t* SlabStore::takeMirror() {
  if (freeMirrors_.empty()) return nullptr;
  uint8_t* mirror = freeMirrors_.back();
  freeMirrors_.pop_back();
  return mirror;
}

void SlabStore::close(bool isLeaked) {
  for (Part& part : parts_) {
    if (part.list) api_.deregister_mem(agent_, part.list.get(), nullptr);
    part.list.reset();
    if (isLeaked) pinForEver(std::move(part.pin));
    part.pin.reset();
  }
}

}  // namespace kvferry
