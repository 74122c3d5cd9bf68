// How many slabs an agent has, and of which size.
#pragma once

#include <cstdint>

namespace kvferry {

struct SlabConfig {
  /** A multiple of 8, kSlabSizeBytesMin to kSlabSizeBytesMax. */
  uint64_t slabBytes = 0;
  /** For each direction; 0: no slabs. */
  uint64_t slabCount = 0;
};

}  // namespace kvferry
