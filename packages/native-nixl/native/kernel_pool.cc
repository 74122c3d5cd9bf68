#include "kernel_pool.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "limits.h"

namespace kvferry {

/** A task in the pool. Batches are claimed by number. */
struct KernelPool::RunningTask {
  uint64_t ticket = 0;
  std::unique_ptr<KernelTask> task;
  std::atomic<uint64_t> nextBatch{0};
  std::atomic<uint64_t> batchesLeft{0};
};

struct KernelPool::Core {
  explicit Core(CompletionSink& completionSink) : sink(completionSink) {}

  CompletionSink& sink;
  std::mutex mutex;
  std::condition_variable wake;
  /** Tasks with batches that nobody has claimed; the front one is worked on. */
  std::deque<std::shared_ptr<RunningTask>> queue;
  std::vector<KernelCompletion> done;
  uint64_t jobsInFlight = 0;
  uint64_t nextTicket = 1;
  bool isStopping = false;
  std::vector<std::thread> threads;

  void finish(RunningTask& running) {
    running.task->unpin();
    bool isFirst = false;
    {
      std::lock_guard<std::mutex> lock(mutex);
      isFirst = done.empty();
      done.push_back({running.ticket, running.task->takeOutcome(), running.task->takeDigests()});
    }
    if (isFirst) sink.notify();
  }

  /** The next task that may have an unclaimed batch; null when stopping. */
  std::shared_ptr<RunningTask> take() {
    std::unique_lock<std::mutex> lock(mutex);
    for (;;) {
      if (isStopping) return nullptr;
      while (!queue.empty() &&
             queue.front()->nextBatch.load() >= queue.front()->task->batchCount()) {
        queue.pop_front();
      }
      if (!queue.empty()) return queue.front();
      wake.wait(lock);
    }
  }

  void work() {
    std::vector<uint8_t> scratch;
    while (std::shared_ptr<RunningTask> running = take()) {
      const uint64_t batch = running->nextBatch.fetch_add(1);
      if (batch >= running->task->batchCount()) continue;
      running->task->runBatch(batch, scratch);
      if (running->batchesLeft.fetch_sub(1) == 1) finish(*running);
    }
  }
};

KernelPool::KernelPool(std::unique_ptr<Core> core) : core_(std::move(core)) {}

std::unique_ptr<KernelPool> KernelPool::create(uint64_t threadCount, CompletionSink& sink) {
  auto core = std::make_unique<Core>(sink);
  const uint64_t count = std::clamp<uint64_t>(threadCount, 1, limits::kKernelThreadCountMax);
  Core* raw = core.get();
  for (uint64_t i = 0; i < count; i++) core->threads.emplace_back([raw] { raw->work(); });
  return std::unique_ptr<KernelPool>(new KernelPool(std::move(core)));
}

KernelPool::~KernelPool() { shutdownNow(); }

Result KernelPool::submit(std::unique_ptr<KernelTask> task, uint64_t* ticket) {
  auto running = std::make_shared<RunningTask>();
  running->batchesLeft = task->batchCount();
  running->task = std::move(task);
  {
    std::lock_guard<std::mutex> lock(core_->mutex);
    if (core_->isStopping) return Result::failure(Status::kClosed, "kernel");
    if (core_->jobsInFlight >= limits::kKernelJobsInFlightMax) {
      return Result::overLimit("kernelJobsInFlightMax", core_->jobsInFlight,
                               limits::kKernelJobsInFlightMax);
    }
    core_->jobsInFlight += 1;
    running->ticket = core_->nextTicket++;
    *ticket = running->ticket;
    core_->queue.push_back(running);
  }
  if (running->task->batchCount() == 1) {
    core_->wake.notify_one();
  } else {
    core_->wake.notify_all();
  }
  return Result::success();
}

void KernelPool::drain(std::vector<KernelCompletion>* out) {
  std::lock_guard<std::mutex> lock(core_->mutex);
  core_->jobsInFlight -= core_->done.size();
  for (KernelCompletion& completion : core_->done) out->push_back(std::move(completion));
  core_->done.clear();
}

void KernelPool::shutdownNow() {
  {
    std::lock_guard<std::mutex> lock(core_->mutex);
    core_->isStopping = true;
    core_->queue.clear();
  }
  core_->wake.notify_all();
  for (std::thread& thread : core_->threads) {
    if (thread.joinable()) thread.join();
  }
}

}  // namespace kvferry
