#include "ipc_mappings.h"

#include <algorithm>
#include <utility>

namespace kvferry {
namespace {

Result noPath(const char* why) { return Result::failure(Status::kUnsupported, "path", why); }

}  // namespace

IpcMappings::IpcMappings(std::shared_ptr<CudaDevice> device, IpcFacts facts)
    : device_(std::move(device)), facts_(std::move(facts)), isOwn_(facts_.process == ownProcess()) {}

Result IpcMappings::open(std::shared_ptr<CudaDevice> device, IpcFacts facts,
                         std::unique_ptr<IpcMappings>* mappings) {
  if (facts.isEmpty()) return noPath("the peer offers no GPU memory by CUDA IPC");
  if (facts.process.machine != ownProcess().machine) {
    return noPath("the peer lives on another machine, or in another PID namespace");
  }
  std::unique_ptr<IpcMappings> made(new IpcMappings(std::move(device), std::move(facts)));
  Result opened = made->openAll();
  if (opened.ok()) *mappings = std::move(made);
  return opened;
}

IpcMappings::~IpcMappings() {
  if (isOwn_) return;
  for (const CudaPointer mapping : opened_) device_->api().ipcClose(mapping);
}

Result IpcMappings::openAll() {
  if (isOwn_) {
    Result reached = device_->reach(static_cast<int>(facts_.device));
    if (!reached.ok()) return reached;
  }
  for (const IpcMemory& memory : facts_.memories) {
    Result opened = openOne(memory);
    if (!opened.ok()) return opened;
  }
  return Result::success();
}

Result IpcMappings::openOne(const IpcMemory& memory) {
  const CudaApi& api = device_->api();
  CudaPointer mapping = memory.address;
  if (!isOwn_) {
    Result opened =
        api.check(api.ipcOpen(&mapping, memory.handle, cuda::kIpcLazyPeerAccess), "ipcOpen");
    if (!opened.ok()) return opened;
  }
  opened_.push_back(mapping);
  CudaPointer base = 0;
  size_t bytes = 0;
  Result asked = api.check(api.memoryRange(&base, &bytes, mapping), "memoryRange");
  if (!asked.ok()) return asked;
  // A kernel that goes beyond it would end the use of the GPU for this process.
  if (base <= mapping && memory.bytes <= bytes - (mapping - base)) return asked;
  return noPath("a handle of the peer opens less than the peer says");
}

uint64_t IpcMappings::addressHere(uint64_t address, uint64_t bytes) const noexcept {
  if (!facts_.contains(address, bytes)) return 0;
  const auto next = std::upper_bound(
      facts_.memories.begin(), facts_.memories.end(), address,
      [](uint64_t value, const IpcMemory& memory) { return value < memory.address; });
  const auto index = static_cast<size_t>(next - facts_.memories.begin()) - 1;
  return opened_[index] + (address - facts_.memories[index].address);
}

Result IpcMappings::translate(const BlockTable& table, BlockTable* here) const {
  *here = table;
  for (BlockRegion& region : here->regions) {
    region.address = addressHere(region.address, region.spanBytes());
    if (region.address == 0) {
      return Result::nixlFailure("ipc", kNixlNotFound,
                                 "the peer's memory isn't in the metadata that was loaded");
    }
  }
  return Result::success();
}

}  // namespace kvferry
