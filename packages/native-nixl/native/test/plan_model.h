// Sides with their own storage, and a naive model of a transfer: a side is the list of the
// addresses of its bytes, in order. Shared by the tests of the plan.
#pragma once

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "../transfer_plan.h"
#include "check.h"

namespace planmodel {

using namespace kvferry;

inline BlockTable tableOf(std::vector<BlockRegion> regions) {
  BlockTable table;
  REQUIRE(makeBlockTable(std::move(regions), &table).ok());
  return table;
}

/** A side with its own storage. */
struct Side {
  const BlockTable* table = nullptr;
  bool isSegments = false;
  std::vector<uint32_t> ids;
  std::vector<uint64_t> offsets;
  std::vector<uint64_t> lengths;

  PlanSide view() const {
    return {table, isSegments, ids.size(), ids.data(), ids.data(), offsets.data(), lengths.data()};
  }
};

inline Side blocks(const BlockTable& table, std::vector<uint32_t> ids) {
  Side side;
  side.table = &table;
  side.ids = std::move(ids);
  return side;
}

inline Side segments(const BlockTable& table, std::vector<uint32_t> regions,
                     std::vector<uint64_t> offsets, std::vector<uint64_t> lengths) {
  Side side;
  side.table = &table;
  side.isSegments = true;
  side.ids = std::move(regions);
  side.offsets = std::move(offsets);
  side.lengths = std::move(lengths);
  return side;
}

inline Status checkedOf(const Side& local, const Side& remote, bool isRead = true) {
  PlanScratch scratch;
  uint64_t bytes = 0;
  return checkPost(local.view(), remote.view(), isRead, scratch, &bytes).status;
}

inline TransferPlan planOf(const Side& local, const Side& remote) {
  TransferPlan plan;
  buildPlan(local.view(), remote.view(), &plan);
  return plan;
}

/** The model: a side as the list of its byte addresses. */
inline std::vector<uint64_t> addressesOf(const Side& side) {
  std::vector<uint64_t> addresses;
  const auto add = [&](uint64_t start, uint64_t bytes) {
    for (uint64_t i = 0; i < bytes; i++) addresses.push_back(start + i);
  };
  if (side.isSegments) {
    for (size_t i = 0; i < side.ids.size(); i++) {
      add(side.table->regions[side.ids[i]].address + side.offsets[i], side.lengths[i]);
    }
    return addresses;
  }
  for (const BlockRegion& region : side.table->regions) {
    for (const uint32_t id : side.ids) {
      add(region.address + id * region.blockStrideBytes, region.blockSizeBytes);
    }
  }
  return addresses;
}

/** Cuts segments off the end until the side has at most `bytes`. */
inline void trim(Side& side, uint64_t bytes) {
  uint64_t total = 0;
  for (size_t i = 0; i < side.lengths.size(); i++) {
    total += side.lengths[i];
    if (total < bytes) continue;
    side.lengths[i] -= total - bytes;
    side.ids.resize(i + 1);
    side.offsets.resize(i + 1);
    side.lengths.resize(i + 1);
  }
}

/** Whether the plan moves exactly the bytes of the model, and no neighbours are left unmerged. */
inline bool isRight(const TransferPlan& plan, const Side& local, const Side& remote) {
  const auto locals = addressesOf(local);
  const auto remotes = addressesOf(remote);
  std::multimap<uint64_t, uint64_t> expected;
  for (size_t i = 0; i < locals.size(); i++) expected.emplace(locals[i], remotes[i]);
  std::multimap<uint64_t, uint64_t> actual;
  for (const CopyDescriptor& each : plan.descriptors) {
    if (each.bytes == 0) return false;
    for (uint64_t i = 0; i < each.bytes; i++) actual.emplace(each.local + i, each.remote + i);
  }
  const auto sorted = [](const std::multimap<uint64_t, uint64_t>& pairs) {
    std::vector<std::pair<uint64_t, uint64_t>> list(pairs.begin(), pairs.end());
    std::sort(list.begin(), list.end());
    return list;
  };
  return sorted(actual) == sorted(expected) && plan.bytes == locals.size();
}

inline bool hasUnmergedNeighbours(const TransferPlan& plan) {
  for (size_t i = 1; i < plan.descriptors.size(); i++) {
    const CopyDescriptor& a = plan.descriptors[i - 1];
    const CopyDescriptor& b = plan.descriptors[i];
    if (b.local < a.local) return true;
    if (a.local + a.bytes == b.local && a.remote + a.bytes == b.remote &&
        a.localRegistration == b.localRegistration &&
        a.remoteRegistration == b.remoteRegistration) {
      return true;
    }
  }
  return false;
}

}  // namespace planmodel
