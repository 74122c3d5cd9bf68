// Where UCX logs: anonymous memory of this process, never stdout and never a file that a killed process
// leaves behind. Read through its path in /proc by whichever thread wants to know which transports UCX
// uses. Any thread.
#pragma once

#include <string>

namespace kvferry {

/** The path, the same for the whole process; empty when the system has no memfd. */
std::string processLogPath();

/** Forgets a log path that a parent process of ours left in the environment: it names the parent's. */
void forgetInheritedLog();

}  // namespace kvferry
