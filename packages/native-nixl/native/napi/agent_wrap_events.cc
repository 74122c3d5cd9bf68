// The second half of AgentWrap: what comes back from the thread, and the end of its life.
#include "agent_wrap.h"
#include "events_value.h"

namespace kvferry {

void AgentWrap::drain(Napi::Env env) {
  AgentEvents events;
  agent_->drain(&events);
  if (events.isEmpty()) return;
  bool isClosed = false;
  for (const CommandCompletion& command : events.commands) {
    if (command.ticket == ready_ && command.result.ok()) renewExitHandler();
    if (closing_ != 0 && command.ticket == closing_) isClosed = true;
  }
  countDown(events);
  const std::vector<napi_value> arguments = eventsArguments(env, events);
  Napi::Function onEvents = onEvents_.Value();
  // Before JS runs, which may let go of the last reference to this object.
  if (isClosed) {
    shutdown();
    onEvents_.Reset();
    Unref();
  }
  // A listener that throws leaves the exception pending; the channel reports it as uncaught.
  onEvents.Call(arguments);
}

void AgentWrap::countDown(const AgentEvents& events) {
  uint64_t ended = events.commands.size();
  for (const TransferCompletion& transfer : events.transfers) {
    if (transfer.outcome == TransferOutcome::kOverdue) {
      overdue_.insert(transfer.handle);
      ++ended;
    } else if (overdue_.erase(transfer.handle) == 0) {
      ++ended;
    }
  }
  channel_->removePending(ended);
}

bool AgentWrap::shutdown() {
  if (agent_ == nullptr || isShutDown_) return true;
  isShutDown_ = true;
  unguardAtExit(this);
  napi_remove_env_cleanup_hook(env_, onEnvironmentEnd, this);
  const bool isWhole = agent_->shutdownNow(Agent::kShutdownWaitMs);
  if (!isWhole) skipExitHandlers();
  channel_->close();
  return isWhole;
}

void AgentWrap::onEnvironmentEnd(void* self) { static_cast<AgentWrap*>(self)->shutdown(); }

bool AgentWrap::shutdownAtExit() noexcept {
  // No environment any more: only the thread matters.
  return agent_->shutdownNow(Agent::kShutdownWaitMs);
}

}  // namespace kvferry
