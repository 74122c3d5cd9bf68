// Which process is meant, and whether it has ended: for what a dead peer's agent left in our slabs.
// The same facts as ProcessIdentity of the contract. Any thread.
#pragma once

#include <cstdint>
#include <string>

namespace kvferry {

struct ProcessId {
  /** Digest of `machineId`: this start of this machine, and the pid namespace. */
  uint64_t machine = 0;
  /** 0: unknown. */
  uint64_t pid = 0;
  /** In the kernel's ticks. */
  uint64_t startTime = 0;

  bool operator==(const ProcessId& other) const noexcept {
    return machine == other.machine && pid == other.pid && startTime == other.startTime;
  }
};

/** All zero where there is no /proc. */
ProcessId ownProcess();

uint64_t machineDigest(const std::string& machineId);

/** True only as proof: a process of this machine that was reaped. False also for what can't be told. */
bool hasProvablyEnded(const ProcessId& process);

}  // namespace kvferry
