// The JS side of an agent: block tables, and what is asked of peers. None waits for the thread.
#include <algorithm>
#include <utility>

#include "agent_core.h"

namespace kvferry {
namespace {

Result notATable(const char* operation) {
  return Result::failure(Status::kInvalidHandle, operation, "not a block table");
}

}  // namespace

Result Agent::declareBlockTable(const std::vector<BlockRegionSpec>& specs, uint64_t* handle) {
  std::lock_guard<std::mutex> lock(core_->mutex);
  Result open = core_->checkIntake();
  if (!open.ok()) return open;
  auto entry = std::make_shared<TableEntry>();
  std::vector<BlockRegion> regions;
  for (const BlockRegionSpec& spec : specs) {
    const std::shared_ptr<Region>* region = core_->regions.find(spec.region);
    if (region == nullptr || !(*region)->isRegistered || (*region)->isLeaving) {
      return Result::failure(Status::kInvalidHandle, "declareBlockTable", "not a region");
    }
    uint64_t address = 0;
    if (__builtin_add_overflow((*region)->address, spec.offsetBytes, &address)) {
      return Result::outOfRange("declareBlockTable", "the offset wraps");
    }
    const auto same = std::find(entry->regions.begin(), entry->regions.end(), *region);
    const auto registration = static_cast<uint64_t>(same - entry->regions.begin());
    regions.push_back(
        {address, spec.blockSizeBytes, spec.blockStrideBytes, spec.blockCount, registration});
    entry->regions.push_back(*region);
    if (!((*region)->place == entry->regions[0]->place)) {
      return Result::outOfRange("declareBlockTable",
                                "a table's regions lie all on the host or all on one GPU");
    }
  }
  Result made = makeBlockTable(std::move(regions), &entry->table);
  if (!made.ok()) return made;
  entry->table.place = entry->regions[0]->place;
  for (const auto& region : entry->regions) entry->table.isTarget &= region->isTarget;
  for (size_t i = 0; i < specs.size(); i++) {
    // No term can wrap any more: makeBlockTable has checked the addresses.
    const BlockRegion& region = entry->table.regions[i];
    const Region& registered = *entry->regions[i];
    if (region.address + region.spanBytes() > registered.address + registered.lengthBytes) {
      return Result::outOfRange("declareBlockTable", "blocks reach beyond the registered region");
    }
  }
  if (core_->tables.isFull()) {
    return Result::overLimit("blockTableCountMax", core_->tables.size(),
                             limits::kBlockTableCountMax);
  }
  for (const auto& region : entry->regions) region->tableCount += 1;
  *handle = core_->tables.insert(std::move(entry));
  return Result::success();
}

Result Agent::exportBlockTable(uint64_t handle, std::vector<uint8_t>* exported) const {
  std::lock_guard<std::mutex> lock(core_->mutex);
  const std::shared_ptr<TableEntry>* entry = core_->tables.find(handle);
  if (entry == nullptr || !(*entry)->isLocal()) return notATable("exportBlockTable");
  *exported = encodeBlockTable((*entry)->table);
  return Result::success();
}

Result Agent::importBlockTable(uint64_t peer, const uint8_t* exported, size_t sizeBytes,
                               uint64_t* handle) {
  auto entry = std::make_shared<TableEntry>();
  std::lock_guard<std::mutex> lock(core_->mutex);
  Result open = core_->checkIntake();
  if (!open.ok()) return open;
  if (core_->peers.find(peer) == nullptr) {
    return Result::failure(Status::kInvalidHandle, "importBlockTable", "not a peer");
  }
  Result decoded = decodeBlockTable(exported, sizeBytes, &entry->table);
  if (!decoded.ok()) return decoded;
  if (core_->tables.isFull()) {
    return Result::overLimit("blockTableCountMax", core_->tables.size(),
                             limits::kBlockTableCountMax);
  }
  entry->peer = peer;
  *handle = core_->tables.insert(std::move(entry));
  return Result::success();
}

Result Agent::describeBlockTable(uint64_t handle, BlockTableDescription* description) const {
  std::lock_guard<std::mutex> lock(core_->mutex);
  const std::shared_ptr<TableEntry>* entry = core_->tables.find(handle);
  if (entry == nullptr) return notATable("describeBlockTable");
  description->blockCount = (*entry)->table.blockCount;
  description->blockSizesBytes.clear();
  for (const BlockRegion& region : (*entry)->table.regions) {
    description->blockSizesBytes.push_back(region.blockSizeBytes);
  }
  return Result::success();
}

Result Agent::releaseBlockTable(uint64_t handle) {
  std::lock_guard<std::mutex> lock(core_->mutex);
  const std::shared_ptr<TableEntry>* found = core_->tables.find(handle);
  if (found == nullptr) {
    return core_->tables.wasErased(handle) ? Result::success() : notATable("releaseBlockTable");
  }
  const std::shared_ptr<TableEntry> entry = *found;
  if (entry->openTransfers > 0) {
    return Result::busy("block table", entry->openTransfers, "transfers use the table");
  }
  for (const auto& region : entry->regions) region->tableCount -= 1;
  core_->tables.erase(handle);
  return Result::success();
}

Result Agent::processEnded(const ProcessId& process, Ticket* ticket) {
  std::lock_guard<std::mutex> lock(core_->mutex);
  Result opened = core_->openTicket(ticket);
  return opened.ok() ? core_->enqueue(ProcessEndedCommand{*ticket, process}) : opened;
}

Result Agent::pathsTo(uint64_t handle, PeerPaths* paths) const {
  std::lock_guard<std::mutex> lock(core_->mutex);
  const std::shared_ptr<Peer>* peer = core_->peers.find(handle);
  if (peer == nullptr) return Result::failure(Status::kInvalidHandle, "pathsTo", "not a peer");
  paths->hasSlabs = core_->config.slabs.slabCount > 0 && (*peer)->slabs.slabCount > 0;
  paths->hasIpc = (*peer)->hasIpc;
  return Result::success();
}

}  // namespace kvferry
