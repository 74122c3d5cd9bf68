#include "descriptor_value.h"

#include <unistd.h>

#include <climits>
#include <cstring>

#include "../descriptor_passing.h"
#include "arguments.h"
#include "result_value.h"

namespace kvferry {

namespace {

/** What is no int is no open descriptor either: -1. */
bool readDescriptor(const Napi::Value& value, const char* name, int* descriptor) {
  uint64_t number = 0;
  if (!readInteger(value, name, &number)) return false;
  *descriptor = number > INT_MAX ? -1 : static_cast<int>(number);
  return true;
}

}  // namespace

Napi::Value receivedDescriptor(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  int socket = -1;
  if (!readDescriptor(info[0], "socketFd", &socket)) return env.Undefined();
  int descriptor = -1;
  std::vector<uint8_t> message;
  const Result result = tryReceiveDescriptor(socket, &descriptor, &message);
  if (!result.ok()) return throwResult(env, result);
  if (descriptor < 0) return env.Null();
  Napi::Object object = Napi::Object::New(env);
  Napi::Uint8Array bytes = Napi::Uint8Array::New(env, message.size());
  // The thread is being terminated: nobody will ever take it.
  if (object.IsEmpty() || bytes.IsEmpty()) {
    ::close(descriptor);
    return env.Undefined();
  }
  std::memcpy(bytes.Data(), message.data(), message.size());
  object.Set("fd", descriptor);
  object.Set("message", bytes);
  return object;
}

Napi::Value sentDescriptor(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  int socket = -1;
  int descriptor = -1;
  const uint8_t* message = nullptr;
  size_t sizeBytes = 0;
  if (!readDescriptor(info[0], "socketFd", &socket) ||
      !readDescriptor(info[1], "fd", &descriptor) ||
      !readBytes(info[2], "message", &message, &sizeBytes)) {
    return env.Undefined();
  }
  bool isSent = false;
  const Result result = trySendDescriptor(socket, descriptor, message, sizeBytes, &isSent);
  if (!result.ok()) return throwResult(env, result);
  return Napi::Boolean::New(env, isSent);
}

}  // namespace kvferry
