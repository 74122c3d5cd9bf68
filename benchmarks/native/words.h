// Words on the command line of a bare loop: bytes as hex, and block ids in the order of a scattered transfer.
#pragma once

#include <cstdint>
#include <string>

/** Odd, so that each is a permutation of a count that is a power of two. */
constexpr uint64_t kLocalOrder = 0x9E3779B1;
constexpr uint64_t kRemoteOrder = 0x85EBCA6B;

inline uint64_t scatteredId(uint64_t at, uint64_t count, uint64_t order) { return 2 * (at * order % count); }

inline std::string toHex(const void* data, size_t bytes) {
  static const char digits[] = "0123456789abcdef";
  const auto* from = static_cast<const uint8_t*>(data);
  std::string hex;
  for (size_t i = 0; i < bytes; i++) {
    hex += digits[from[i] >> 4];
    hex += digits[from[i] & 15];
  }
  return hex;
}

inline std::string fromHex(const std::string& hex) {
  std::string data;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    data += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return data;
}
