#include "event_wrap.h"

#include <cstring>
#include <string>

#include "arguments.h"
#include "result_value.h"

namespace kvferry {

namespace {

/** Marks our objects, so that a foreign one is never unwrapped as ours. */
constexpr napi_type_tag kEventTag = {0x6b76666572727902, 0x41d7a9e20c5b83f6};

bool readAddress(const Napi::Value& value, const char* name, uint64_t* address) {
  bool isExact = false;
  if (value.IsBigInt()) *address = value.As<Napi::BigInt>().Uint64Value(&isExact);
  return isExact || refuseType(value.Env(), name, "an address, as a bigint from 0n");
}

}  // namespace

Napi::Function EventWrap::define(Napi::Env env) {
  return DefineClass(env, "DeviceEvent",
                     {
                         InstanceMethod<&EventWrap::record>("record"),
                         InstanceMethod<&EventWrap::isDone>("isDone"),
                         InstanceMethod<&EventWrap::exportHandle>("exportHandle"),
                         InstanceMethod<&EventWrap::free>("free"),
                     });
}

EventWrap::EventWrap(const Napi::CallbackInfo& info) : ObjectWrap(info) {
  info.This().As<Napi::Object>().TypeTag(&kEventTag);
  std::string library;
  uint64_t ordinal = 0;
  if (!readString(info[0], "library", &library) || !readInteger(info[1], "device", &ordinal)) return;
  const uint8_t* handle = nullptr;
  size_t handleBytes = 0;
  uint64_t address = 0;
  const bool isImport = info[2].IsTypedArray();
  if (isImport && !readBytes(info[2], "handle", &handle, &handleBytes)) return;
  const bool isBorrowed = !isImport && !info[2].IsNull();
  if (isBorrowed && !readAddress(info[2], "event", &address)) return;
  std::shared_ptr<CudaDevice> device;
  Result result = CudaDevice::open(library, ordinal, &device);
  if (result.ok()) {
    result = isImport     ? CudaEvent::importHandle(device, handle, handleBytes, &event_)
             : isBorrowed ? CudaEvent::borrow(device, address, &event_)
                          : CudaEvent::create(device, &event_);
  }
  if (!result.ok()) throwResult(info.Env(), result);
}

std::shared_ptr<CudaEvent> EventWrap::eventOf(const Napi::Value& value, const char* name) {
  if (!value.IsObject() || !value.As<Napi::Object>().CheckTypeTag(&kEventTag)) {
    refuseType(value.Env(), name, "an event of this addon");
    return nullptr;
  }
  const EventWrap* wrap = Unwrap(value.As<Napi::Object>());
  if (wrap == nullptr || wrap->live(value.Env()) == nullptr) return nullptr;
  return wrap->event_;
}

CudaEvent* EventWrap::live(Napi::Env env) const {
  if (event_ == nullptr) {
    Napi::RangeError::New(env, "the event was freed").ThrowAsJavaScriptException();
  }
  return event_.get();
}

Napi::Value EventWrap::record(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  uint64_t stream = 0;
  CudaEvent* event = live(env);
  if (event == nullptr || !readAddress(info[0], "stream", &stream)) return env.Undefined();
  const Result result = event->record(stream);
  return result.ok() ? env.Undefined() : throwResult(env, result);
}

Napi::Value EventWrap::isDone(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  const CudaEvent* event = live(env);
  if (event == nullptr) return env.Undefined();
  bool done = false;
  const Result result = event->isDone(&done);
  return result.ok() ? Napi::Boolean::New(env, done) : throwResult(env, result);
}

Napi::Value EventWrap::exportHandle(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  const CudaEvent* event = live(env);
  if (event == nullptr) return env.Undefined();
  CudaEventHandle handle;
  const Result result = event->exportHandle(&handle);
  if (!result.ok()) return throwResult(env, result);
  Napi::Uint8Array bytes = Napi::Uint8Array::New(env, handle.size());
  if (!bytes.IsEmpty()) std::memcpy(bytes.Data(), handle.data(), handle.size());
  return bytes;
}

Napi::Value EventWrap::free(const Napi::CallbackInfo& info) {
  event_.reset();
  return info.Env().Undefined();
}

}  // namespace kvferry
