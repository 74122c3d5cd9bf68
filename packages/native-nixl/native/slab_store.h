// The memory of an agent's slabs, registered: the records that peers read, a mirror for each
// peer's records, the slabs that are lent, and those that the agent fills itself. Made by the agent's
// thread at its start and used by it alone; addresses are stable.
#pragma once

#include <memory>
#include <vector>

#include "host_memory.h"
#include "nixl_handles.h"
#include "slab_config.h"
#include "slab_mover.h"
#include "slab_wire.h"

namespace kvferry {

class SlabStore {
 public:
  /** Slabs on `device`, or on the host if it is null. kLimit: no memory; kNixl: not registered; kCuda. */
  static Result create(const NixlApi& api, NixlHandle agent, const SlabConfig& config,
                       const std::shared_ptr<CudaDevice>& device,
                       std::unique_ptr<SlabStore>* store);
  SlabStore(const SlabStore&) = delete;
  SlabStore& operator=(const SlabStore&) = delete;

  const SlabFacts& facts() const noexcept { return facts_; }
  const SlabConfig& config() const noexcept { return config_; }
  uint8_t* record(uint64_t slab) noexcept { return records_ + slab * kSlabRecordBytes; }
  /** Addresses: of the host, or of the GPU. */
  uint64_t lent(uint64_t slab) const noexcept { return lent_ + slab * config_.slabBytes; }
  uint64_t own(uint64_t slab) const noexcept { return own_ + slab * config_.slabBytes; }
  SlabMover& mover() noexcept { return mover_; }

  /** A place for a peer's records; null when all are taken. */
  uint8_t* takeMirror();
  void giveMirror(uint8_t* mirror) { freeMirrors_.push_back(mirror); }

  /** Deregisters and unmaps; the agent must still be there. `isLeaked`: a peer may still write here. */
  void close(bool isLeaked);

 private:
  SlabStore(const NixlApi& api, NixlHandle agent, const SlabConfig& config,
            const std::shared_ptr<CudaDevice>& device);
  /** The memory, and its registration. */
  struct Part {
    std::shared_ptr<Memory> memory;
    MemoryPin pin;
    NixlRegistrationList list;
  };
  Result enrol(std::shared_ptr<Memory> memory);

  const NixlApi& api_;
  const NixlHandle agent_;
  const SlabConfig config_;
  /** One, or two where the slabs lie on a GPU: the records are the host's. */
  std::vector<Part> parts_;
  SlabMover mover_;
  SlabFacts facts_;
  uint8_t* records_ = nullptr;
  uint64_t lent_ = 0;
  uint64_t own_ = 0;
  std::vector<uint8_t*> freeMirrors_;
};

}  // namespace kvferry
