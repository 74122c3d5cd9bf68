#include "fake_kernels.h"

#include <cstdint>
#include <cstring>

// What the GPU's compiler knows by itself.
#define __global__
#define __device__
#define __launch_bounds__(threads)

namespace {

struct Index {
  unsigned x;
};
thread_local Index threadIdx;
thread_local Index blockIdx;
thread_local Index blockDim;
thread_local Index gridDim;

}  // namespace

namespace kvferry {
namespace kernels {
namespace {

/** As the GPU, these refuse an address that isn't a multiple of their size: UBSan sees to it. */
struct alignas(16) Vector {
  uint64_t low;
  uint64_t high;
};
using Word = uint32_t;
void addTo(uint64_t* sum, uint64_t value) { *sum += value; }

}  // namespace
}  // namespace kernels
}  // namespace kvferry

#include "../cuda/kernels.cu"

namespace fakecuda {
namespace {

using namespace kvferry::kernels;

template <class Arguments, void (*Kernel)(const Arguments)>
void call(const void* arguments) {
  Arguments copy;
  std::memcpy(&copy, arguments, sizeof copy);
  Kernel(copy);
}

constexpr Kernel kKernels[] = {
    {"kvferry_fill", sizeof(SlotArguments), call<SlotArguments, kvferry_fill>},
    {"kvferry_digest", sizeof(SlotArguments), call<SlotArguments, kvferry_digest>},
    {"kvferry_copy_pieces", sizeof(PieceArguments), call<PieceArguments, kvferry_copy_pieces>},
    {"kvferry_pack", sizeof(PackArguments), call<PackArguments, kvferry_pack>},
    {"kvferry_move", sizeof(MoveArguments), call<MoveArguments, kvferry_move>},
    {"kvferry_move_listed", sizeof(ListedArguments), call<ListedArguments, kvferry_move_listed>},
    {"kvferry_relayout", sizeof(RelayoutArguments), call<RelayoutArguments, kvferry_relayout>},
};

}  // namespace

const Kernel* findKernel(const std::string& name) {
  for (const Kernel& kernel : kKernels) {
    if (name == kernel.name) return &kernel;
  }
  return nullptr;
}

void runGrid(const Kernel& kernel, const void* arguments, unsigned blocks, unsigned threads) {
  gridDim.x = blocks;
  blockDim.x = threads;
  for (blockIdx.x = 0; blockIdx.x < blocks; blockIdx.x++) {
    for (threadIdx.x = 0; threadIdx.x < threads; threadIdx.x++) kernel.run(arguments);
  }
}

}  // namespace fakecuda
