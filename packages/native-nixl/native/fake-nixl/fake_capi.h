// Shared by the files that export the fake's C functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "fake_state.h"

#define FAKE_EXPORT extern "C" __attribute__((visibility("default")))

namespace fakenixl {

using Lock = std::lock_guard<std::mutex>;

/** What an agent's handle points to. */
struct AgentBox {
  std::shared_ptr<Agent> agent;
};

/** The agent of a handle; dies on a call from another thread than the agent's maker. Needs the
 * lock. */
inline const std::shared_ptr<Agent>& agentOf(void* handle) {
  if (handle == nullptr) die("null agent");
  const auto& agent = static_cast<AgentBox*>(handle)->agent;
  if (agent->owner != std::this_thread::get_id()) die("agent used by two threads: " + agent->name);
  return agent;
}

}  // namespace fakenixl
