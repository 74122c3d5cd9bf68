#include "metadata_name.h"

#include <cstring>

#include "limits.h"

namespace kvferry {

std::optional<std::string> agentNameOfMetadata(const uint8_t* bytes, size_t sizeBytes) {
  // "nixlSerDes|", then tagged fields: tag, u64 little-endian length, bytes, '|'. The name is the
  // first.
  constexpr char kStart[] = "nixlSerDes|Agent";
  constexpr size_t kStartBytes = sizeof kStart - 1;
  constexpr size_t kNameAt = kStartBytes + sizeof(uint64_t);
  if (sizeBytes <= kNameAt || std::memcmp(bytes, kStart, kStartBytes) != 0) return std::nullopt;
  uint64_t length = 0;
  for (size_t i = 0; i < sizeof length; i++) length |= uint64_t{bytes[kStartBytes + i]} << (8 * i);
  if (length == 0 || length > limits::kIdSizeBytesMax || length >= sizeBytes - kNameAt) {
    return std::nullopt;
  }
  if (bytes[kNameAt + length] != '|') return std::nullopt;
  return std::string(reinterpret_cast<const char*>(bytes + kNameAt), length);
}

}  // namespace kvferry
