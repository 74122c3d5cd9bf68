// What a path that moves bytes by itself needs of the agent's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "agent_state.h"

namespace kvferry {

class TransferHost {
 public:
  virtual ~TransferHost() = default;
  /** Hands a message to the network. Status of the library. */
  virtual int send(const Peer& peer, const uint8_t* bytes, size_t sizeBytes) = 0;
  virtual void endTransfer(std::unique_ptr<Transfer> transfer, bool wasOverdue, Result result) = 0;
  virtual void tellOverdue(const Transfer& transfer) = 0;
};

/** The message of a transfer follows its bytes, which are in place now. */
inline Result sendNotification(TransferHost& host, const Transfer& transfer) {
  if (!transfer.hasNotification) return Result::success();
  const int status =
      host.send(*transfer.peer, transfer.notification.data(), transfer.notification.size());
  return status < 0 ? Result::nixlFailure("gen_notif", status) : Result::success();
}

}  // namespace kvferry
