// A peer's GPU memory as it is mapped here: each allocation opened once for the peer's life, and closed with this object.
// The driver keeps a mapping valid after its owner has freed the memory or ended: what is written there then reaches nobody.
// The agent's thread, in the context.
#pragma once

#include <memory>
#include <vector>

#include "block_table.h"
#include "cuda_device.h"
#include "ipc_wire.h"

namespace kvferry {

class IpcMappings {
 public:
  /** All, or none: kUnsupported and kCuda say why not. */
  static Result open(std::shared_ptr<CudaDevice> device, IpcFacts facts,
                     std::unique_ptr<IpcMappings>* mappings);
  /** No kernel may be using them. */
  ~IpcMappings();
  IpcMappings(const IpcMappings&) = delete;
  IpcMappings& operator=(const IpcMappings&) = delete;

  const ProcessId& process() const noexcept { return facts_.process; }
  /** The peer's table with addresses as they are here. kNixl: not all of it was registered when the peer offered. */
  Result translate(const BlockTable& table, BlockTable* here) const;

 private:
  IpcMappings(std::shared_ptr<CudaDevice> device, IpcFacts facts);
  Result openAll();
  Result openOne(const IpcMemory& memory);
  /** 0: not offered. */
  uint64_t addressHere(uint64_t address, uint64_t bytes) const noexcept;

  const std::shared_ptr<CudaDevice> device_;
  const IpcFacts facts_;
  /** What lies in this process itself has its addresses already, and no handle opens it. */
  const bool isOwn_;
  /** Of each of `facts_.memories`, as far as they are open. */
  std::vector<CudaPointer> opened_;
};

}  // namespace kvferry
