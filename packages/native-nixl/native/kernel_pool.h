// A few threads that run kernel tasks, off the JS thread. Tasks are split into
// batches, so one task uses all threads. Called from the JS thread; results are taken with `drain`
// after the sink was notified. Memory is pinned while a task is queued or runs. Knows no kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "completion_sink.h"
#include "kernel_task.h"
#include "status.h"

namespace kvferry {

struct KernelCompletion {
  uint64_t ticket = 0;
  Result result;
  /** What the task answers; empty for copies. */
  std::vector<uint64_t> digests;
};

class KernelPool {
 public:
  /** `threadCount` is clamped to [1, kKernelThreadCountMax]. The sink must outlive the pool. */
  static std::unique_ptr<KernelPool> create(uint64_t threadCount, CompletionSink& sink);

  /** Abandons queued jobs, waits for running batches (microseconds), joins. */
  ~KernelPool();
  KernelPool(const KernelPool&) = delete;
  KernelPool& operator=(const KernelPool&) = delete;

  /** Enqueues. kClosed after a shutdown; kLimit: kKernelJobsInFlightMax. */
  Result submit(std::unique_ptr<KernelTask> task, uint64_t* ticket);

  /** Moves finished jobs to the end of `out`. */
  void drain(std::vector<KernelCompletion>* out);

  /** Stops and joins; no notify after it returns. Idempotent; also what the destructor does. */
  void shutdownNow();

 private:
  struct RunningTask;
  struct Core;
  explicit KernelPool(std::unique_ptr<Core> core);
  std::unique_ptr<Core> core_;
};

}  // namespace kvferry
