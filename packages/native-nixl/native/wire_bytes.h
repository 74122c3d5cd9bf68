// Fields of a form on the wire, one after the other, as this machine has them: little-endian.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace kvferry {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "values are copied as they are");

template <typename T>
void putField(uint8_t** to, const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::memcpy(*to, &value, sizeof value);
  *to += sizeof value;
}

template <typename T>
T getField(const uint8_t** from) {
  static_assert(std::is_trivially_copyable_v<T>);
  T value;
  std::memcpy(&value, *from, sizeof value);
  *from += sizeof value;
  return value;
}

}  // namespace kvferry
