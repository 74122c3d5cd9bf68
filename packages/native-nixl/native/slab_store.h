// The memory of an agent's slabs, one registration: the records that peers read, a mirror for each
// peer's records, the slabs that are lent, and those that the agent fills itself. Made by the agent's
// thread at its start and used by it alone; addresses are stable.
#pragma once

#include <memory>
#include <vector>

#include "host_memory.h"
#include "nixl_handles.h"
#include "slab_config.h"
#include "slab_wire.h"

namespace kvferry {

class SlabStore {
 public:
  /** kLimit: no memory; kNixl: not registered. */
  static Result create(const NixlApi& api, NixlHandle agent, const SlabConfig& config,
                       std::unique_ptr<SlabStore>* store);
  SlabStore(const SlabStore&) = delete;
  SlabStore& operator=(const SlabStore&) = delete;

  const SlabFacts& facts() const noexcept { return facts_; }
  const SlabConfig& config() const noexcept { return config_; }
  uint8_t* record(uint64_t slab) noexcept { return records_ + slab * kSlabRecordBytes; }
  uint8_t* lent(uint64_t slab) noexcept { return lent_ + slab * config_.slabBytes; }
  uint8_t* own(uint64_t slab) noexcept { return own_ + slab * config_.slabBytes; }

  /** A place for a peer's records; null when all are taken. */
  uint8_t* takeMirror();
  void giveMirror(uint8_t* mirror) { freeMirrors_.push_back(mirror); }

  /** Deregisters and unmaps; the agent must still be there. `isLeaked`: a peer may still write here. */
  void close(bool isLeaked);

 private:
  SlabStore(const NixlApi& api, NixlHandle agent, const SlabConfig& config);

  const NixlApi& api_;
  const NixlHandle agent_;
  const SlabConfig config_;
  std::shared_ptr<HostMemory> memory_;
  MemoryPin pin_;
  NixlRegistrationList list_;
  SlabFacts facts_;
  uint8_t* records_ = nullptr;
  uint8_t* lent_ = nullptr;
  uint8_t* own_ = nullptr;
  std::vector<uint8_t*> freeMirrors_;
};

}  // namespace kvferry
