// Whether an agent has the path `ipc`, and how much of its GPU that may take.
#pragma once

#include <cstdint>

namespace kvferry {

struct IpcConfig {
  /** Offers its memory, and opens that of its peers. */
  bool isOn = false;
  /** CTAs of its kernels, of which one runs at a time: at most so many processors are taken from others. 0: one for each. */
  uint64_t ctaCount = 0;
};

}  // namespace kvferry
