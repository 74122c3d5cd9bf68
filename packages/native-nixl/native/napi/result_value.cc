#include "result_value.h"

namespace kvferry {

Napi::Value resultValue(Napi::Env env, const Result& result) {
  if (result.ok()) return env.Null();
  Napi::Object object = Napi::Object::New(env);
  object.Set("status", statusName(result.status));
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
