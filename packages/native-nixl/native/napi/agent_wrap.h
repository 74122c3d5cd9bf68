// `Agent` of the binding: parses arguments, hands them to the Agent, and turns its events into one call of
// JS per batch. The only file that knows both JS and the agent's thread. JS thread only. Lives until
// `close` has completed or the environment ends: an agent that was never closed isn't collected.
#pragma once

#include <memory>
#include <unordered_set>

#include "../agent.h"
#include "completion_channel.h"
#include "exit_guard.h"
#include "napi_setup.h"

namespace kvferry {

class AgentWrap final : public Napi::ObjectWrap<AgentWrap>, private ExitGuarded {
 public:
  static Napi::Function define(Napi::Env env);
  /** `new Agent(name, libraryPath, backends, onEvents)`; `ready` is the ticket of its start. */
  explicit AgentWrap(const Napi::CallbackInfo& info);
  ~AgentWrap() override;

 private:
  // Asynchronous: each returns a ticket, its outcome comes with the events.
  Napi::Value ready(const Napi::CallbackInfo& info);
  Napi::Value registerRegion(const Napi::CallbackInfo& info);
  Napi::Value deregisterRegion(const Napi::CallbackInfo& info);
  Napi::Value localMetadata(const Napi::CallbackInfo& info);
  Napi::Value addPeer(const Napi::CallbackInfo& info);
  Napi::Value removePeer(const Napi::CallbackInfo& info);
  Napi::Value notify(const Napi::CallbackInfo& info);
  Napi::Value processEnded(const Napi::CallbackInfo& info);
  Napi::Value close(const Napi::CallbackInfo& info);
  // Synchronous.
  Napi::Value pathsTo(const Napi::CallbackInfo& info);
  Napi::Value declareBlockTable(const Napi::CallbackInfo& info);
  Napi::Value exportBlockTable(const Napi::CallbackInfo& info);
  Napi::Value importBlockTable(const Napi::CallbackInfo& info);
  Napi::Value describeBlockTable(const Napi::CallbackInfo& info);
  Napi::Value releaseBlockTable(const Napi::CallbackInfo& info);
  Napi::Value createFence(const Napi::CallbackInfo& info);
  Napi::Value signalFence(const Napi::CallbackInfo& info);
  Napi::Value signalFenceAfter(const Napi::CallbackInfo& info);
  Napi::Value post(const Napi::CallbackInfo& info);
  Napi::Value expectNotifications(const Napi::CallbackInfo& info);
  Napi::Value counters(const Napi::CallbackInfo& info);

  /** The ticket as a number, counted as pending; or throws `result`. */
  Napi::Value enqueued(Napi::Env env, const Result& result, Ticket ticket);
  void drain(Napi::Env env);
  void countDown(const AgentEvents& events);
  static void onEnvironmentEnd(void* self);
  /** Joins the thread and lets go of the environment. Idempotent. */
  bool shutdown();
  bool shutdownAtExit() noexcept override;

  napi_env env_;
  // Declared before the agent, so that the agent, whose thread notifies it, is destroyed first.
  std::unique_ptr<CompletionChannel> channel_;
  std::unique_ptr<Agent> agent_;
  Napi::FunctionReference onEvents_;
  Ticket ready_ = 0;
  Ticket closing_ = 0;
  bool isShutDown_ = false;
  /**
   * Transfers reported overdue: they no longer keep the process alive, and their final status must not
   * count down a second time. At most kDrainingTransferCountMax.
   */
  std::unordered_set<uint64_t> overdue_;
};

}  // namespace kvferry
