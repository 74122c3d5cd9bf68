// Checks of what JS hands over. The TypeScript half is the only caller and checks forms itself, so a
// failure here is a mistake of ours or of somebody who loads the binary directly: either way an
// exception, never a crash. Each function returns false with a pending exception. Where the thread is
// being terminated, reading an argument fails and gives an empty value, which has no environment to throw
// in: then they only return false, and JS won't run again to see the difference.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "../limits.h"
#include "napi_setup.h"

namespace kvferry {

inline bool refuseType(Napi::Env env, const char* name, const char* expected) {
  if (env == nullptr) return false;
  Napi::TypeError::New(env, std::string(name) + " must be " + expected)
      .ThrowAsJavaScriptException();
  return false;
}

/** A non-negative integer that a double holds exactly: sizes, offsets, counts, handles. */
inline bool readInteger(Napi::Env env, double number, const char* name, uint64_t* out) {
  // Written so that NaN fails.
  if (!(number >= 0 && number <= static_cast<double>(limits::kSafeIntegerMax))) {
    Napi::RangeError::New(env, std::string(name) + " must be an integer in [0, 2^53)")
        .ThrowAsJavaScriptException();
    return false;
  }
  *out = static_cast<uint64_t>(number);
  if (static_cast<double>(*out) == number) return true;
  Napi::RangeError::New(env, std::string(name) + " must be an integer, not a fraction")
      .ThrowAsJavaScriptException();
  return false;
}

inline bool readInteger(const Napi::Value& value, const char* name, uint64_t* out) {
  if (!value.IsNumber()) return refuseType(value.Env(), name, "a number");
  return readInteger(value.Env(), value.As<Napi::Number>().DoubleValue(), name, out);
}

/** False for anything that isn't `true`. Unlike a coercion it can't fail while a thread is terminated. */
inline bool readFlag(const Napi::Value& value) {
  bool flag = false;
  return !value.IsEmpty() && napi_get_value_bool(value.Env(), value, &flag) == napi_ok && flag;
}

inline bool readString(const Napi::Value& value, const char* name, std::string* out) {
  if (!value.IsString()) return refuseType(value.Env(), name, "a string");
  *out = value.As<Napi::String>().Utf8Value();
  return true;
}

inline bool readStrings(const Napi::Value& value, const char* name, std::vector<std::string>* out) {
  if (!value.IsArray()) return refuseType(value.Env(), name, "an array of strings");
  const Napi::Array array = value.As<Napi::Array>();
  for (uint32_t index = 0; index < array.Length(); ++index) {
    std::string item;
    if (!readString(array.Get(index), name, &item)) return false;
    out->push_back(std::move(item));
  }
  return true;
}

/**
 * Elements of a typed array of this type, borrowed until JS runs again. Shared memory is refused: another
 * thread could change it between the check and the use.
 */
template <typename Element>
bool readElements(napi_env env, napi_value value, napi_typedarray_type type, const char* name,
                  const Element** elements, size_t* count) {
  napi_typedarray_type actual = napi_int8_array;
  void* data = nullptr;
  napi_value buffer = nullptr;
  bool isOwned = false;
  // Refuses what isn't a typed array.
  if (napi_get_typedarray_info(env, value, &actual, count, &data, &buffer, nullptr) == napi_ok) {
    napi_is_arraybuffer(env, buffer, &isOwned);
  }
  if (!isOwned || actual != type) {
    return refuseType(env, name, "a typed array of its kind, over unshared memory");
  }
  *elements = static_cast<const Element*>(data);
  return true;
}

inline bool readBytes(const Napi::Value& value, const char* name, const uint8_t** bytes,
                      size_t* count) {
  return readElements<uint8_t>(value.Env(), value, napi_uint8_array, name, bytes, count);
}

}  // namespace kvferry
