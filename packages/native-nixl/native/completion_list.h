// The way out of the agent's thread: what is done and not yet drained. Tells the sink once per
// batch. Bounded: transfers and commands by the limits on what is in flight, notifications by a
// backlog whose oldest entries are dropped and counted.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <utility>

#include "agent.h"

namespace kvferry {

class CompletionList {
 public:
  explicit CompletionList(CompletionSink& sink) : sink_(&sink) {}
  CompletionList(const CompletionList&) = delete;
  CompletionList& operator=(const CompletionList&) = delete;

  void push(TransferCompletion completion) {
    std::lock_guard<std::mutex> lock(mutex_);
    events_.transfers.push_back(std::move(completion));
    tell();
  }
  void push(CommandCompletion completion) {
    std::lock_guard<std::mutex> lock(mutex_);
    events_.commands.push_back(std::move(completion));
    tell();
  }
  /** Answers the number of older notifications that were dropped for it. */
  uint64_t push(NotificationMessage message) {
    std::lock_guard<std::mutex> lock(mutex_);
    uint64_t dropped = 0;
    while (notifications_.size() >= limits::kNotificationBacklogMax) {
      notifications_.pop_front();
      dropped += 1;
    }
    notifications_.push_back(std::move(message));
    tell();
    return dropped;
  }
  void pushBroken(Result reason) {
    std::lock_guard<std::mutex> lock(mutex_);
    events_.isBroken = true;
    events_.broken = std::move(reason);
    tell();
  }

  void drain(AgentEvents* out) {
    std::lock_guard<std::mutex> lock(mutex_);
    isTold_ = false;
    const auto move = [](auto& from, auto& to) {
      for (auto& item : from) to.push_back(std::move(item));
      from.clear();
    };
    move(events_.transfers, out->transfers);
    move(notifications_, out->notifications);
    move(events_.commands, out->commands);
    if (events_.isBroken) {
      out->isBroken = true;
      out->broken = std::move(events_.broken);
      events_.isBroken = false;
    }
  }

  /** The sink may go away after this returns. */
  void disarm() {
    std::lock_guard<std::mutex> lock(mutex_);
    sink_ = nullptr;
  }

 private:
  void tell() {
    if (isTold_ || sink_ == nullptr) return;
    isTold_ = true;
    sink_->notify();
  }

  std::mutex mutex_;
  CompletionSink* sink_;
  bool isTold_ = false;
  AgentEvents events_;
  std::deque<NotificationMessage> notifications_;
};

}  // namespace kvferry
