// Our kernels, compiled for the host: the driver's `cuLaunchKernel` runs them thread after thread.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

namespace fakecuda {

struct Kernel {
  const char* name;
  size_t argumentBytes;
  void (*run)(const void* arguments);
};

/** Null: no such kernel. */
const Kernel* findKernel(const std::string& name);

/** All threads of a grid of `blocks` blocks. */
void runGrid(const Kernel& kernel, const void* arguments, unsigned blocks, unsigned threads);

}  // namespace fakecuda
