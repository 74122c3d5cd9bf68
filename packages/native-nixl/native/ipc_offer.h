// Which registered memory an agent offers for the path `ipc`, asked of the driver anew each time: memory that was
// allocated plainly has a handle, imported and virtual memory has none.
#pragma once

#include <vector>

#include "cuda_device.h"
#include "ipc_wire.h"

namespace kvferry {

/**
 * `registered`: what lies on the GPU and may be a target, in any order. Nothing is offered where nothing has a handle, or
 * where it lies in more allocations than `kIpcMemoryCountMax`. In the context. kCuda.
 */
Result offerIpc(const CudaDevice& device, std::vector<kernels::AddressRange> registered,
                IpcFacts* facts);

}  // namespace kvferry
