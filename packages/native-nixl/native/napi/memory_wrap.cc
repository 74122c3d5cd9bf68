#include "memory_wrap.h"

#include "arguments.h"
#include "result_value.h"

namespace kvferry {

namespace {

/** Marks our objects, so that a foreign one is never unwrapped as ours. */
constexpr napi_type_tag kMemoryTag = {0x6b76666572727901, 0x8f3c2a51d07e44b9};

}  // namespace

Napi::Function MemoryWrap::define(Napi::Env env) {
  return DefineClass(env, "Memory",
                     {
                         InstanceMethod<&MemoryWrap::free>("free"),
                         InstanceMethod<&MemoryWrap::buffer>("buffer"),
                         InstanceMethod<&MemoryWrap::address>("address"),
                     });
}

MemoryWrap::MemoryWrap(const Napi::CallbackInfo& info) : ObjectWrap(info) {
  info.This().As<Napi::Object>().TypeTag(&kMemoryTag);
  uint64_t sizeBytes = 0;
  if (!readInteger(info[0], "sizeBytes", &sizeBytes)) return;
  const Result result = HostMemory::allocate(sizeBytes, info[1].ToBoolean(), &memory_);
  if (!result.ok()) throwResult(info.Env(), result);
}

std::shared_ptr<HostMemory> MemoryWrap::memoryOf(const Napi::Value& value, const char* name) {
  if (!value.IsObject() || !value.As<Napi::Object>().CheckTypeTag(&kMemoryTag)) {
    refuseType(value.Env(), name, "memory of this addon");
    return nullptr;
  }
  return Unwrap(value.As<Napi::Object>())->memory_;
}

Napi::Value MemoryWrap::free(const Napi::CallbackInfo& info) {
  const Result result = memory_->free();
  if (!result.ok()) return throwResult(info.Env(), result);
  if (!buffer_.IsEmpty()) {
    Napi::ArrayBuffer buffer = buffer_.Value();
    if (!buffer.IsEmpty()) buffer.Detach();
    buffer_.Reset();
  }
  return info.Env().Undefined();
}

Napi::Value MemoryWrap::buffer(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  if (memory_->isFreed()) return Napi::ArrayBuffer::New(env, 0);
  if (!buffer_.IsEmpty()) {
    Napi::ArrayBuffer existing = buffer_.Value();
    if (!existing.IsEmpty()) return existing;
  }
  // The finalizer only drops a reference: at the end of an environment it may run while an agent thread
  // still copies, and the agent's pin keeps the pages.
  auto* owner = new std::shared_ptr<HostMemory>(memory_);
  Napi::ArrayBuffer created = Napi::ArrayBuffer::New(
      env, memory_->data(), static_cast<size_t>(memory_->sizeBytes()),
      [](Napi::Env, void*, std::shared_ptr<HostMemory>* held) { delete held; }, owner);
  if (created.IsEmpty()) {
    delete owner;
    return env.Undefined();
  }
  buffer_ = Napi::Weak(created);
  return created;
}

Napi::Value MemoryWrap::address(const Napi::CallbackInfo& info) {
  return Napi::BigInt::New(info.Env(), static_cast<uint64_t>(memory_->address()));
}

}  // namespace kvferry
