// What JS asks of an agent's paths, and its counters.
#include <string>

#include "agent_wrap.h"
#include "arguments.h"
#include "result_value.h"

namespace kvferry {

Napi::Value AgentWrap::processEnded(const Napi::CallbackInfo& info) {
  ProcessId process;
  std::string machineId;
  if (!readString(info[0], "machineId", &machineId) || !readInteger(info[1], "pid", &process.pid) ||
      !readInteger(info[2], "startTime", &process.startTime)) {
    return info.Env().Undefined();
  }
  process.machine = machineDigest(machineId);
  Ticket ticket = 0;
  const Result result = agent_->processEnded(process, &ticket);
  return enqueued(info.Env(), result, ticket);
}

Napi::Value AgentWrap::pathsTo(const Napi::CallbackInfo& info) {
  uint64_t peer = 0;
  if (!readInteger(info[0], "peer", &peer)) return info.Env().Undefined();
  PeerPaths paths;
  const Result result = agent_->pathsTo(peer, &paths);
  if (!result.ok()) return throwResult(info.Env(), result);
  Napi::Object object = Napi::Object::New(info.Env());
  object.Set("slabs", paths.hasSlabs);
  object.Set("ipc", paths.hasIpc);
  return object;
}

Napi::Value AgentWrap::counters(const Napi::CallbackInfo& info) {
  const AgentCounters counters = agent_->counters();
  Napi::Object object = Napi::Object::New(info.Env());
  object.Set("transfersPosted", static_cast<double>(counters.transfersPosted));
  object.Set("transfersDone", static_cast<double>(counters.transfersDone));
  object.Set("transfersFailed", static_cast<double>(counters.transfersFailed));
  object.Set("transfersOpen", static_cast<double>(counters.transfersOpen));
  object.Set("transfersDraining", static_cast<double>(counters.transfersDraining));
  object.Set("notificationsReceived", static_cast<double>(counters.notificationsReceived));
  object.Set("notificationsDropped", static_cast<double>(counters.notificationsDropped));
  object.Set("bytesMoved", static_cast<double>(counters.bytesMoved));
  object.Set("polls", static_cast<double>(counters.polls));
  object.Set("slabsLent", static_cast<double>(counters.slabsLent));
  object.Set("slabsSuspect", static_cast<double>(counters.slabsSuspect));
  object.Set("slabsMoved", static_cast<double>(counters.slabsMoved));
  object.Set("transfersByIpc", static_cast<double>(counters.transfersByIpc));
  return object;
}

}  // namespace kvferry
