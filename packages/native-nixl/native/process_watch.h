// Whether one process of this machine still lives, asked often: a descriptor of the process instead of a look into the
// process table for each question. For those of whom nothing can be known it says that they live. One thread.
#pragma once

#include "process_id.h"

namespace kvferry {

class ProcessWatch {
 public:
  explicit ProcessWatch(const ProcessId& process);
  ~ProcessWatch();
  ProcessWatch(const ProcessWatch&) = delete;
  ProcessWatch& operator=(const ProcessWatch&) = delete;

  /** It runs no code any more; its parent need not have noticed. */
  bool hasEnded();

 private:
  const ProcessId process_;
  /** -1: none, on systems before Linux 5.3. */
  int descriptor_ = -1;
  bool hasEnded_ = false;
};

}  // namespace kvferry
