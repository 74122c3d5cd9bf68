#include "ipc_offer.h"

#include <algorithm>

#include "limits.h"

namespace kvferry {

Result offerIpc(const CudaDevice& device, std::vector<kernels::AddressRange> registered,
                IpcFacts* facts) {
  *facts = {};
  const ProcessId own = ownProcess();
  // Who can't say who it is can't be told dead from alive.
  if (own.pid == 0) return Result::success();
  const CudaApi& api = device.api();
  std::sort(registered.begin(), registered.end(),
            [](const auto& a, const auto& b) { return a.start < b.start; });
  IpcFacts offer;
  offer.process = own;
  offer.device = static_cast<uint32_t>(device.ordinal());
  for (const kernels::AddressRange& range : registered) {
    const bool isKnown = !offer.memories.empty() &&
                         range.start < offer.memories.back().address + offer.memories.back().bytes;
    if (!isKnown) {
      CudaPointer base = 0;
      size_t bytes = 0;
      Result asked = api.check(api.memoryRange(&base, &bytes, range.start), "memoryRange");
      IpcMemory memory;
      if (asked.ok()) asked = api.check(api.ipcExport(&memory.handle, base), "ipcExport");
      if (!asked.ok()) return asked;
      memory.address = base;
      memory.bytes = bytes;
      offer.memories.push_back(memory);
    }
    const bool isTouching = isKnown && range.start <= offer.ranges.back().end;
    if (isTouching) {
      offer.ranges.back().end = std::max(offer.ranges.back().end, range.end);
    } else {
      offer.ranges.push_back(range);
    }
  }
  const bool isTooMuch = offer.memories.size() > limits::kIpcMemoryCountMax ||
                         offer.ranges.size() > limits::kRegionCountMax;
  if (!isTooMuch) *facts = std::move(offer);
  return Result::success();
}

}  // namespace kvferry
