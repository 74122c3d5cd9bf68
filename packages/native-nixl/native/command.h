// What travels from the JS side to the agent's thread. Each carries all it needs, already checked.
#pragma once

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "agent_state.h"

namespace kvferry {

struct RegisterCommand {
  Ticket ticket;
  std::shared_ptr<Region> region;
};
struct DeregisterCommand {
  Ticket ticket;
  std::shared_ptr<Region> region;
};
struct MetadataCommand {
  Ticket ticket;
};
struct AddPeerCommand {
  Ticket ticket;
  std::vector<uint8_t> metadata;
  std::string expectedName;
};
struct RemovePeerCommand {
  Ticket ticket;
  /** Null: it had been removed before; only the ticket completes. */
  std::shared_ptr<Peer> peer;
};
struct NotifyCommand {
  Ticket ticket;
  std::shared_ptr<Peer> peer;
  std::vector<uint8_t> message;
};
struct ProcessEndedCommand {
  Ticket ticket;
  ProcessId process;
};
struct PostCommand {
  std::unique_ptr<Transfer> transfer;
};
struct CloseCommand {
  /** 0: nobody waits for it (shutdownNow). */
  Ticket ticket;
  MonotonicTime deadline;
};

using Command = std::variant<RegisterCommand, DeregisterCommand, MetadataCommand, AddPeerCommand,
                             RemovePeerCommand, NotifyCommand, ProcessEndedCommand, PostCommand,
                             CloseCommand>;

}  // namespace kvferry
