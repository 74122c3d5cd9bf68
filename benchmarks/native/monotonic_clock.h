// The clock of the whole machine, by which stamps of different processes compare.
#pragma once

#include <time.h>

#include <cstdint>

inline uint64_t nowNs() {
  timespec time = {};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
}

inline void sleepNs(uint64_t ns) {
  const timespec time = {static_cast<time_t>(ns / 1'000'000'000),
                         static_cast<long>(ns % 1'000'000'000)};
  nanosleep(&time, nullptr);
}
