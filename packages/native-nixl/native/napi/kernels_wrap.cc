#include "kernels_wrap.h"

#include <cstring>
#include <utility>
#include <vector>

#include "../content_task.h"
#include "../copy_task.h"
#include "arguments.h"
#include "memory_wrap.h"
#include "result_value.h"

namespace kvferry {

namespace {

/** Per region in the flat list that JS passes: memory (or null), offset, size, stride, count. */
constexpr uint32_t kRegionFields = 5;

bool readRegions(const Napi::Value& value, std::vector<KernelRegion>* regions) {
  if (!value.IsArray()) return refuseType(value.Env(), "regions", "an array");
  const Napi::Array list = value.As<Napi::Array>();
  for (uint32_t at = 0; at + kRegionFields <= list.Length(); at += kRegionFields) {
    KernelRegion region;
    const Napi::Value memory = list.Get(at);
    if (!memory.IsNull()) {
      region.memory = MemoryWrap::memoryOf(memory, "memory");
      if (region.memory == nullptr) return false;
    }
    if (!readInteger(list.Get(at + 1), "offsetBytes", &region.offsetBytes) ||
        !readInteger(list.Get(at + 2), "blockSizeBytes", &region.blockSizeBytes) ||
        !readInteger(list.Get(at + 3), "blockStrideBytes", &region.blockStrideBytes) ||
        !readInteger(list.Get(at + 4), "blockCount", &region.blockCount)) {
      return false;
    }
    regions->push_back(std::move(region));
  }
  return true;
}

template <typename Element>
bool copyElements(const Napi::Value& value, napi_typedarray_type type, const char* name,
                  std::vector<Element>* out) {
  const Element* elements = nullptr;
  size_t count = 0;
  if (!readElements(value.Env(), value, type, name, &elements, &count)) return false;
  out->assign(elements, elements + count);
  return true;
}

}  // namespace

Napi::Function KernelsWrap::define(Napi::Env env) {
  return DefineClass(env, "Kernels",
                     {
                         InstanceMethod<&KernelsWrap::submit>("submit"),
                         InstanceMethod<&KernelsWrap::copyBlocks>("copyBlocks"),
                         InstanceMethod<&KernelsWrap::relayout>("relayout"),
                     });
}

KernelsWrap::KernelsWrap(const Napi::CallbackInfo& info) : ObjectWrap(info), env_(info.Env()) {
  uint64_t threadCount = 0;
  if (!readInteger(info[0], "threads", &threadCount)) return;
  channel_ = std::make_unique<CompletionChannel>(info.Env(), "kvferry-kernels",
                                                 [this](Napi::Env env) { drain(env); });
  pool_ = KernelPool::create(threadCount, *channel_);
  // After the channel: cleanup hooks run last-added-first, and the threads must end before it does.
  napi_add_env_cleanup_hook(env_, onEnvironmentEnd, this);
  guardAtExit(this);
}

KernelsWrap::~KernelsWrap() {
  if (pool_ != nullptr) shutdown();
}

void KernelsWrap::onEnvironmentEnd(void* self) { static_cast<KernelsWrap*>(self)->shutdown(); }

Napi::Value KernelsWrap::submit(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  KernelJob job;
  uint64_t kind = 0;
  if (!readInteger(info[0], "kind", &kind) ||
      !readInteger(info[1], "blockTokens", &job.blockTokens) ||
      !readRegions(info[2], &job.regions) ||
      !copyElements(info[3], napi_uint32_array, "blockIds", &job.blockIds) ||
      !copyElements(info[4], napi_uint32_array, "offsets", &job.offsets) ||
      !copyElements(info[5], napi_biguint64_array, "seeds", &job.seeds)) {
    return env.Undefined();
  }
  job.kind = kind == 0 ? KernelKind::kFill : kind == 1 ? KernelKind::kDigest : KernelKind::kExpect;
  std::unique_ptr<KernelTask> task;
  const Result made = makeContentTask(std::move(job), &task);
  return enqueue(env, made, std::move(task));
}

Napi::Value KernelsWrap::copyBlocks(const Napi::CallbackInfo& info) {
  BlockCopy copy;
  copy.isGather = readFlag(info[0]);
  if (!readRegions(info[1], &copy.regions) ||
      !copyElements(info[2], napi_uint32_array, "blockIds", &copy.blockIds)) {
    return info.Env().Undefined();
  }
  copy.slab = MemoryWrap::memoryOf(info[3], "slab");
  if (copy.slab == nullptr || !readInteger(info[4], "offsetBytes", &copy.slabOffsetBytes)) {
    return info.Env().Undefined();
  }
  std::unique_ptr<KernelTask> task;
  const Result made = makeBlockCopyTask(std::move(copy), &task);
  return enqueue(info.Env(), made, std::move(task));
}

Napi::Value KernelsWrap::relayout(const Napi::CallbackInfo& info) {
  Relayout relayout;
  const auto readRun = [&info](uint32_t at, TokenRun* run) {
    run->isHeadMajor = readFlag(info[at + 1]);
    return readInteger(info[at], "blockTokens", &run->blockTokens) &&
           readRegions(info[at + 2], &run->regions) &&
           copyElements(info[at + 3], napi_uint32_array, "blockIds", &run->blockIds) &&
           readInteger(info[at + 4], "firstToken", &run->firstToken);
  };
  if (!readRun(0, &relayout.from) || !readRun(5, &relayout.to) ||
      !readInteger(info[10], "kvHeadCount", &relayout.headCount) ||
      !readInteger(info[11], "tokenCount", &relayout.tokenCount)) {
    return info.Env().Undefined();
  }
  std::unique_ptr<KernelTask> task;
  const Result made = makeRelayoutTask(std::move(relayout), &task);
  return enqueue(info.Env(), made, std::move(task));
}

Napi::Value KernelsWrap::enqueue(Napi::Env env, const Result& made,
                                 std::unique_ptr<KernelTask> task) {
  if (!made.ok()) return throwResult(env, made);
  uint64_t ticket = 0;
  const Result result = pool_->submit(std::move(task), &ticket);
  if (!result.ok()) return throwResult(env, result);
  Napi::Promise::Deferred deferred = Napi::Promise::Deferred::New(env);
  if (pending_.empty()) Ref();
  channel_->addPending(1);
  return pending_.emplace(ticket, deferred).first->second.Promise();
}

void KernelsWrap::drain(Napi::Env env) {
  std::vector<KernelCompletion> completions;
  pool_->drain(&completions);
  if (completions.empty()) return;
  for (const KernelCompletion& completion : completions) {
    const auto found = pending_.find(completion.ticket);
    if (found == pending_.end()) continue;
    channel_->removePending(1);
    if (!completion.result.ok()) {
      Napi::Error error = Napi::Error::New(env, statusName(completion.result.status));
      error.Set("failure", resultValue(env, completion.result));
      found->second.Reject(error.Value());
      pending_.erase(found);
      continue;
    }
    const size_t count = completion.digests.size();
    Napi::BigUint64Array digests =
        Napi::TypedArrayOf<uint64_t>::New(env, count, napi_biguint64_array);
    if (count > 0 && !digests.IsEmpty()) std::memcpy(digests.Data(), completion.digests.data(), count * sizeof(uint64_t));
    found->second.Resolve(digests);
    pending_.erase(found);
  }
  if (pending_.empty()) Unref();
}

void KernelsWrap::shutdown() {
  unguardAtExit(this);
  napi_remove_env_cleanup_hook(env_, onEnvironmentEnd, this);
  pool_->shutdownNow();
  channel_->close();
}

bool KernelsWrap::shutdownAtExit() noexcept {
  pool_->shutdownNow();
  return true;
}

}  // namespace kvferry
