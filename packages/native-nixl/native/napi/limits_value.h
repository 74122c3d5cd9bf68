// The bounds of limits.h as JS sees them, for `info` and for the test that compares them with limits.ts.
#pragma once

#include "../limits.h"
#include "napi_setup.h"

namespace kvferry {

inline Napi::Object limitsValue(Napi::Env env) {
  Napi::Object object = Napi::Object::New(env);
  const auto set = [&](const char* name, uint64_t value) {
    object.Set(name, static_cast<double>(value));
  };
  set("idSizeBytesMax", limits::kIdSizeBytesMax);
  set("agentMetadataSizeBytesMax", limits::kAgentMetadataSizeBytesMax);
  set("regionCountMax", limits::kRegionCountMax);
  set("blocksPerPostMax", limits::kBlocksPerPostMax);
  set("descriptorsPerPostMax", limits::kDescriptorsPerPostMax);
  set("transfersInFlightMax", limits::kTransfersInFlightMax);
  set("notificationSizeBytesMax", limits::kNotificationSizeBytesMax);
  set("notificationBacklogMax", limits::kNotificationBacklogMax);
  set("peerCountMax", limits::kPeerCountMax);
  set("drainingTransferCountMax", limits::kDrainingTransferCountMax);
  set("transferDeadlineMs", limits::kTransferDeadlineMs);
  set("fenceDelayMsMax", limits::kFenceDelayMsMax);
  set("slabSizeBytesMin", limits::kSlabSizeBytesMin);
  set("slabSizeBytesMax", limits::kSlabSizeBytesMax);
  set("slabCountMax", limits::kSlabCountMax);
  set("slabSilenceMs", limits::kSlabSilenceMs);
  set("ipcCtaCountMax", limits::kIpcCtaCountMax);
  return object;
}

}  // namespace kvferry
