#include "process_id.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <sstream>

namespace kvferry {
namespace {

/** Fields after the program's name before the start time (proc(5): field 22). */
constexpr int kFieldsBeforeStartTime = 19;

enum class Found : uint8_t { kYes, kNo, kUnknown };

Found startTimeOf(uint64_t pid, uint64_t* startTime) {
  FILE* file = fopen(("/proc/" + std::to_string(pid) + "/stat").c_str(), "re");
  if (file == nullptr) return errno == ENOENT ? Found::kNo : Found::kUnknown;
  char text[1'024];
  errno = 0;
  const size_t size = fread(text, 1, sizeof text - 1, file);
  const bool isGone = size == 0 && errno == ESRCH;
  fclose(file);
  if (isGone) return Found::kNo;
  text[size] = 0;
  // The name is in parentheses, and may hold anything.
  const char* end = strrchr(text, ')');
  if (end == nullptr) return Found::kUnknown;
  std::istringstream fields(end + 1);
  std::string field;
  for (int i = 0; i < kFieldsBeforeStartTime; i++) fields >> field;
  return fields >> *startTime ? Found::kYes : Found::kUnknown;
}

std::string readMachineId() {
  FILE* file = fopen("/proc/sys/kernel/random/boot_id", "re");
  char boot[64] = {};
  if (file == nullptr) return {};
  const size_t size = fread(boot, 1, sizeof boot - 1, file);
  fclose(file);
  char space[64] = {};
  if (size == 0 || readlink("/proc/self/ns/pid", space, sizeof space - 1) <= 0) return {};
  boot[strcspn(boot, "\n")] = 0;
  return std::string(boot) + "/" + space;
}

}  // namespace

uint64_t machineDigest(const std::string& machineId) {
  uint64_t digest = 0xCBF29CE484222325;
  for (const char byte : machineId) {
    digest = (digest ^ static_cast<uint8_t>(byte)) * 0x100000001B3;
  }
  return digest;
}

ProcessId ownProcess() {
  const std::string machineId = readMachineId();
  ProcessId own;
  const auto pid = static_cast<uint64_t>(getpid());
  if (machineId.empty() || startTimeOf(pid, &own.startTime) != Found::kYes) return {};
  own.machine = machineDigest(machineId);
  own.pid = pid;
  return own;
}

bool hasProvablyEnded(const ProcessId& process) {
  static const uint64_t machine = machineDigest(readMachineId());
  if (process.pid == 0 || process.machine != machine) return false;
  uint64_t startTime = 0;
  const Found found = startTimeOf(process.pid, &startTime);
  return found == Found::kNo || (found == Found::kYes && startTime != process.startTime);
}

}  // namespace kvferry
