// Kernel tasks on a GPU. The pool's thread enqueues everything on a lane and waits for it, so that a task
// looks to the pool like one on the host: one batch. Made from jobs that were checked already.
#pragma once

#include <memory>
#include <vector>

#include "copy_task.h"
#include "content_task.h"
#include "cuda_device.h"

namespace kvferry {

class CudaLane;

class CudaTask : public KernelTask {
 public:
  void runBatch(uint64_t batch, std::vector<uint8_t>& scratch) final;
  Result takeOutcome() final { return std::move(outcome_); }

  /** Memory that a task needs; all of it is pinned until its end. */
  Result hold(const std::vector<KernelRegion>& regions) { return pin(regions); }
  Result hold(const std::shared_ptr<Memory>& memory) { return pin(memory); }

 protected:
  explicit CudaTask(std::shared_ptr<CudaDevice> device) : device_(std::move(device)) {}
  virtual Result run(CudaLane& lane) = 0;
  CudaDevice& device() const noexcept { return *device_; }

 private:
  const std::shared_ptr<CudaDevice> device_;
  Result outcome_;
};

/**
 * The GPU that these memories make a task of; null: a task of the host. kOutOfRange: memory of two GPUs, or host
 * memory beside a GPU's that isn't page-locked.
 */
Result findDevice(const std::vector<const Memory*>& memories, std::shared_ptr<CudaDevice>* device);

std::unique_ptr<CudaTask> makeCudaContentTask(std::shared_ptr<CudaDevice> device, KernelJob job);
std::unique_ptr<CudaTask> makeCudaBlockCopyTask(std::shared_ptr<CudaDevice> device, BlockCopy copy);
/** `isInPlace`: sources may share bytes with the one target block that they go to. */
std::unique_ptr<CudaTask> makeCudaRelayoutTask(std::shared_ptr<CudaDevice> device, Relayout relayout,
                                               bool isInPlace);

}  // namespace kvferry
