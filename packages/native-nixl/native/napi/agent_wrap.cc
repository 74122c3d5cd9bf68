#include "agent_wrap.h"

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "../cuda_device.h"
#include "arguments.h"
#include "events_value.h"
#include "memory_wrap.h"
#include "post_arguments.h"
#include "result_value.h"

namespace kvferry {

namespace {

Napi::Value handleOrThrow(Napi::Env env, const Result& result, uint64_t handle) {
  if (!result.ok()) return throwResult(env, result);
  return Napi::Number::New(env, static_cast<double>(handle));
}

}  // namespace

Napi::Function AgentWrap::define(Napi::Env env) {
  return DefineClass(
      env, "Agent",
      {
          InstanceMethod<&AgentWrap::ready>("ready"),
          InstanceMethod<&AgentWrap::registerRegion>("registerRegion"),
          InstanceMethod<&AgentWrap::deregisterRegion>("deregisterRegion"),
          InstanceMethod<&AgentWrap::localMetadata>("localMetadata"),
          InstanceMethod<&AgentWrap::addPeer>("addPeer"),
          InstanceMethod<&AgentWrap::removePeer>("removePeer"),
          InstanceMethod<&AgentWrap::notify>("notify"),
          InstanceMethod<&AgentWrap::processEnded>("processEnded"),
          InstanceMethod<&AgentWrap::pathsTo>("pathsTo"),
          InstanceMethod<&AgentWrap::close>("close"),
          InstanceMethod<&AgentWrap::declareBlockTable>("declareBlockTable"),
          InstanceMethod<&AgentWrap::exportBlockTable>("exportBlockTable"),
          InstanceMethod<&AgentWrap::importBlockTable>("importBlockTable"),
          InstanceMethod<&AgentWrap::describeBlockTable>("describeBlockTable"),
          InstanceMethod<&AgentWrap::releaseBlockTable>("releaseBlockTable"),
          InstanceMethod<&AgentWrap::createFence>("createFence"),
          InstanceMethod<&AgentWrap::signalFence>("signalFence"),
          InstanceMethod<&AgentWrap::signalFenceAfter>("signalFenceAfter"),
          InstanceMethod<&AgentWrap::post>("post"),
          InstanceMethod<&AgentWrap::expectNotifications>("expectNotifications"),
          InstanceMethod<&AgentWrap::counters>("counters"),
      });
}

AgentWrap::AgentWrap(const Napi::CallbackInfo& info) : ObjectWrap(info), env_(info.Env()) {
  AgentConfig config;
  std::string libraryPath;
  if (!readString(info[0], "name", &config.name) ||
      !readString(info[1], "libraryPath", &libraryPath) ||
      !readStrings(info[2], "backends", &config.backends) ||
      !readInteger(info[3], "slabBytes", &config.slabs.slabBytes) ||
      !readInteger(info[4], "slabCount", &config.slabs.slabCount)) {
    return;
  }
  std::string cudaLibrary;
  uint64_t device = 0;
  if (info.Length() > 6 && (!readString(info[6], "cudaLibrary", &cudaLibrary) ||
                            !readInteger(info[7], "device", &device))) {
    return;
  }
  config.ipc.isOn = info.Length() > 8;
  if (config.ipc.isOn && !readInteger(info[8], "ipcCtaCount", &config.ipc.ctaCount)) return;
  if (!info[5].IsFunction()) {
    refuseType(info.Env(), "onEvents", "a function");
    return;
  }
  Result result = loadNixl(libraryPath, &config.api);
  if (result.ok() && !cudaLibrary.empty()) {
    result = CudaDevice::open(cudaLibrary, device, &config.device);
  }
  if (result.ok()) {
    channel_ = std::make_unique<CompletionChannel>(info.Env(), "kvferry-agent",
                                                   [this](Napi::Env env) { drain(env); });
    result = Agent::create(std::move(config), *channel_, &agent_, &ready_);
  }
  if (!result.ok()) {
    throwResult(info.Env(), result);
    return;
  }
  onEvents_ = Napi::Persistent(info[5].As<Napi::Function>());
  Ref();
  channel_->addPending(1);
  // After the channel: cleanup hooks run last-added-first, and the thread must end before it does.
  napi_add_env_cleanup_hook(env_, onEnvironmentEnd, this);
  guardAtExit(this);
}

AgentWrap::~AgentWrap() { shutdown(); }

Napi::Value AgentWrap::enqueued(Napi::Env env, const Result& result, Ticket ticket) {
  if (!result.ok()) return throwResult(env, result);
  channel_->addPending(1);
  return Napi::Number::New(env, static_cast<double>(ticket));
}

Napi::Value AgentWrap::ready(const Napi::CallbackInfo& info) {
  return Napi::Number::New(info.Env(), static_cast<double>(ready_));
}

Napi::Value AgentWrap::registerRegion(const Napi::CallbackInfo& info) {
  uint64_t offsetBytes = 0;
  uint64_t lengthBytes = 0;
  std::shared_ptr<Memory> memory = MemoryWrap::memoryOf(info[0], "memory");
  if (memory == nullptr || !readInteger(info[1], "offsetBytes", &offsetBytes) ||
      !readInteger(info[2], "lengthBytes", &lengthBytes)) {
    return info.Env().Undefined();
  }
  Ticket ticket = 0;
  const Result result =
      agent_->registerRegion(std::move(memory), offsetBytes, lengthBytes, &ticket);
  return enqueued(info.Env(), result, ticket);
}

Napi::Value AgentWrap::deregisterRegion(const Napi::CallbackInfo& info) {
  uint64_t region = 0;
  if (!readInteger(info[0], "region", &region)) return info.Env().Undefined();
  Ticket ticket = 0;
  const Result result = agent_->deregisterRegion(region, &ticket);
  return enqueued(info.Env(), result, ticket);
}

Napi::Value AgentWrap::localMetadata(const Napi::CallbackInfo& info) {
  Ticket ticket = 0;
  const Result result = agent_->localMetadata(&ticket);
  return enqueued(info.Env(), result, ticket);
}

Napi::Value AgentWrap::addPeer(const Napi::CallbackInfo& info) {
  const uint8_t* metadata = nullptr;
  size_t sizeBytes = 0;
  std::string expectedName;
  if (!readBytes(info[0], "metadata", &metadata, &sizeBytes) ||
      !readString(info[1], "expectedName", &expectedName)) {
    return info.Env().Undefined();
  }
  Ticket ticket = 0;
  const Result result = agent_->addPeer(metadata, sizeBytes, std::move(expectedName), &ticket);
  return enqueued(info.Env(), result, ticket);
}

Napi::Value AgentWrap::removePeer(const Napi::CallbackInfo& info) {
  uint64_t peer = 0;
  if (!readInteger(info[0], "peer", &peer)) return info.Env().Undefined();
  Ticket ticket = 0;
  const Result result = agent_->removePeer(peer, &ticket);
  return enqueued(info.Env(), result, ticket);
}

Napi::Value AgentWrap::notify(const Napi::CallbackInfo& info) {
  uint64_t peer = 0;
  const uint8_t* message = nullptr;
  size_t sizeBytes = 0;
  if (!readInteger(info[0], "peer", &peer) ||
      !readBytes(info[1], "message", &message, &sizeBytes)) {
    return info.Env().Undefined();
  }
  Ticket ticket = 0;
  const Result result = agent_->notify(peer, message, sizeBytes, &ticket);
  return enqueued(info.Env(), result, ticket);
}

Napi::Value AgentWrap::close(const Napi::CallbackInfo& info) {
  uint64_t deadlineMs = 0;
  if (!readInteger(info[0], "deadlineMs", &deadlineMs)) return info.Env().Undefined();
  const Result result = agent_->close(deadlineMs, &closing_);
  return enqueued(info.Env(), result, closing_);
}

Napi::Value AgentWrap::declareBlockTable(const Napi::CallbackInfo& info) {
  constexpr uint32_t kRegionFields = 5;
  if (!info[0].IsArray()) {
    refuseType(info.Env(), "regions", "an array");
    return info.Env().Undefined();
  }
  const Napi::Array list = info[0].As<Napi::Array>();
  std::vector<BlockRegionSpec> regions(list.Length() / kRegionFields);
  for (uint32_t index = 0; index < regions.size(); ++index) {
    BlockRegionSpec& region = regions[index];
    const uint32_t at = index * kRegionFields;
    if (!readInteger(list.Get(at), "region", &region.region) ||
        !readInteger(list.Get(at + 1), "offsetBytes", &region.offsetBytes) ||
        !readInteger(list.Get(at + 2), "blockSizeBytes", &region.blockSizeBytes) ||
        !readInteger(list.Get(at + 3), "blockStrideBytes", &region.blockStrideBytes) ||
        !readInteger(list.Get(at + 4), "blockCount", &region.blockCount)) {
      return info.Env().Undefined();
    }
  }
  uint64_t table = 0;
  const Result result = agent_->declareBlockTable(regions, &table);
  return handleOrThrow(info.Env(), result, table);
}

Napi::Value AgentWrap::exportBlockTable(const Napi::CallbackInfo& info) {
  uint64_t table = 0;
  if (!readInteger(info[0], "table", &table)) return info.Env().Undefined();
  std::vector<uint8_t> exported;
  const Result result = agent_->exportBlockTable(table, &exported);
  if (!result.ok()) return throwResult(info.Env(), result);
  Napi::Uint8Array bytes = Napi::Uint8Array::New(info.Env(), exported.size());
  if (!bytes.IsEmpty() && !exported.empty()) {
    std::memcpy(bytes.Data(), exported.data(), exported.size());
  }
  return bytes;
}

Napi::Value AgentWrap::importBlockTable(const Napi::CallbackInfo& info) {
  uint64_t peer = 0;
  const uint8_t* exported = nullptr;
  size_t sizeBytes = 0;
  if (!readInteger(info[0], "peer", &peer) ||
      !readBytes(info[1], "exported", &exported, &sizeBytes)) {
    return info.Env().Undefined();
  }
  uint64_t table = 0;
  const Result result = agent_->importBlockTable(peer, exported, sizeBytes, &table);
  return handleOrThrow(info.Env(), result, table);
}

Napi::Value AgentWrap::describeBlockTable(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  uint64_t table = 0;
  if (!readInteger(info[0], "table", &table)) return env.Undefined();
  BlockTableDescription description;
  const Result result = agent_->describeBlockTable(table, &description);
  if (!result.ok()) return throwResult(env, result);
  Napi::Array sizes = Napi::Array::New(env, description.blockSizesBytes.size());
  for (uint32_t index = 0; index < description.blockSizesBytes.size(); ++index) {
    sizes.Set(index, static_cast<double>(description.blockSizesBytes[index]));
  }
  Napi::Object object = Napi::Object::New(env);
  object.Set("blockCount", static_cast<double>(description.blockCount));
  object.Set("blockSizesBytes", sizes);
  return object;
}

Napi::Value AgentWrap::releaseBlockTable(const Napi::CallbackInfo& info) {
  uint64_t table = 0;
  if (!readInteger(info[0], "table", &table)) return info.Env().Undefined();
  const Result result = agent_->releaseBlockTable(table);
  return result.ok() ? info.Env().Undefined() : throwResult(info.Env(), result);
}

Napi::Value AgentWrap::post(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  std::vector<PostView> posts;
  double* answers = nullptr;
  if (!readPosts(info, &posts, &answers)) return env.Undefined();
  std::vector<uint64_t> handles(posts.size());
  const bool isWaitUntilPosted = readFlag(info[1]);
  const Result result =
      agent_->postAll(posts.data(), posts.size(), isWaitUntilPosted, handles.data());
  if (!result.ok()) return throwResult(env, result);
  channel_->addPending(posts.size());
  for (size_t index = 0; index < handles.size(); ++index) {
    answers[index * kPostNumbers] = static_cast<double>(handles[index]);
  }
  return env.Undefined();
}

Napi::Value AgentWrap::expectNotifications(const Napi::CallbackInfo& info) {
  agent_->expectNotifications(readFlag(info[0]));
  return info.Env().Undefined();
}

}  // namespace kvferry
