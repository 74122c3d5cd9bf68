// What an agent offers for the path `ipc`: the GPU allocations that its registered memory lies in, each with the driver's
// handle that opens it in another process of this machine, and which bytes of them are registered. Travels behind the
// library's own metadata, before what it says of slabs. A pure codec; whoever decodes gets checked values, but whether a
// handle opens what it says is for the driver to tell.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cuda/kernel_arguments.h"
#include "cuda_api.h"
#include "process_id.h"

namespace kvferry {

/** One allocation: where it lies in its owner, and how it is opened elsewhere. */
struct IpcMemory {
  uint64_t address = 0;
  uint64_t bytes = 0;
  CudaIpcHandle handle = {};
};

struct IpcFacts {
  ProcessId process;
  /** Number of the GPU in its process. */
  uint32_t device = 0;
  /** Sorted and apart. None: nothing is offered. */
  std::vector<IpcMemory> memories;
  /** What is registered: sorted and apart, each within one allocation. */
  std::vector<kernels::AddressRange> ranges;

  bool isEmpty() const noexcept { return memories.empty(); }
  /** Whether all of these bytes are registered. */
  bool contains(uint64_t address, uint64_t bytes) const noexcept;
};

/** Appends; nothing where nothing is offered. */
void appendIpcFacts(const IpcFacts& facts, std::vector<uint8_t>* metadata);
/** The size of what stands before them. `facts` offers nothing where there are none, none of a known version, or nonsense. */
size_t splitIpcFacts(const uint8_t* metadata, size_t sizeBytes, IpcFacts* facts);

}  // namespace kvferry
