#include "result_value.h"

namespace kvferry {

namespace {

/** The names that binding.ts declares (`NativeStatus`). */
const char* statusKey(Status status) {
  switch (status) {
    case Status::kOk:
      return "ok";
    case Status::kOutOfRange:
      return "outOfRange";
    case Status::kInvalidHandle:
      return "invalidHandle";
    case Status::kLimit:
      return "limit";
    case Status::kClosed:
      return "closed";
    case Status::kBusy:
      return "busy";
    case Status::kMessageInvalid:
      return "messageInvalid";
    case Status::kPeerMismatch:
      return "peerMismatch";
    case Status::kDeadline:
      return "deadline";
    case Status::kNixl:
      return "nixl";
    case Status::kUnavailable:
      return "unavailable";
    case Status::kBroken:
      return "broken";
  }
  return "broken";
}

}  // namespace

Napi::Value resultValue(Napi::Env env, const Result& result) {
  if (result.ok()) return env.Null();
  Napi::Object object = Napi::Object::New(env);
  object.Set("status", statusKey(result.status));
  object.Set("operation", result.operation);
  object.Set("nixl", nixlStatusName(result.nixl));
  object.Set("limit", result.limit);
  object.Set("value", static_cast<double>(result.value));
  object.Set("max", static_cast<double>(result.max));
  object.Set("detail", result.detail);
  return object;
}

Napi::Value throwResult(Napi::Env env, const Result& result) {
  Napi::Error error = Napi::Error::New(env, statusName(result.status));
  error.Set("failure", resultValue(env, result));
  error.ThrowAsJavaScriptException();
  return env.Undefined();
}

}  // namespace kvferry
