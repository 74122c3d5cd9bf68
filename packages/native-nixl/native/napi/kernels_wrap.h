// `Kernels` of the binding: one KernelPool, a promise per job. Stays alive while a job is pending; an idle
// one may be collected, which joins its threads. JS thread only.
#pragma once

#include <map>
#include <memory>

#include "../kernel_pool.h"
#include "completion_channel.h"
#include "exit_guard.h"
#include "napi_setup.h"

namespace kvferry {

class KernelsWrap final : public Napi::ObjectWrap<KernelsWrap>, private ExitGuarded {
 public:
  static Napi::Function define(Napi::Env env);
  /** `new Kernels(threadCount)`. */
  explicit KernelsWrap(const Napi::CallbackInfo& info);
  ~KernelsWrap() override;

 private:
  /** `submit(kind, blockTokens, regions, blockIds, offsets, seeds)` → Promise<BigUint64Array>. */
  Napi::Value submit(const Napi::CallbackInfo& info);
  /** `copyBlocks(isGather, regions, blockIds, slab, offsetBytes)` → Promise. */
  Napi::Value copyBlocks(const Napi::CallbackInfo& info);
  /** `relayout(…from, …to, kvHeadCount, tokenCount)` → Promise; a run is blockTokens, isHeadMajor,
   * regions, blockIds, firstToken. */
  Napi::Value relayout(const Napi::CallbackInfo& info);
  Napi::Value enqueue(Napi::Env env, const Result& made, std::unique_ptr<KernelTask> task);
  void drain(Napi::Env env);
  static void onEnvironmentEnd(void* self);
  /** Joins the threads and lets go of the environment. Idempotent. */
  void shutdown();
  bool shutdownAtExit() noexcept override;

  napi_env env_;
  // Declared before the pool, so that the pool, whose threads notify it, is destroyed first.
  std::unique_ptr<CompletionChannel> channel_;
  std::unique_ptr<KernelPool> pool_;
  std::map<uint64_t, Napi::Promise::Deferred> pending_;
};

}  // namespace kvferry
