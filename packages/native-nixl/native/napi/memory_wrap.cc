#include "memory_wrap.h"

#include <climits>

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
                         InstanceMethod<&MemoryWrap::descriptor>("descriptor"),
                     });
}

MemoryWrap::MemoryWrap(const Napi::CallbackInfo& info) : ObjectWrap(info) {
  info.This().As<Napi::Object>().TypeTag(&kMemoryTag);
  uint64_t sizeBytes = 0;
  if (!readInteger(info[0], "sizeBytes", &sizeBytes)) return;
  const bool isHuge = readFlag(info[1]);
  Result result;
  if (info[2].IsNumber()) {
    uint64_t descriptor = 0;
    if (!readInteger(info[2], "fd", &descriptor)) return;
    // What is no int is no open descriptor either.
    const int given = descriptor > INT_MAX ? -1 : static_cast<int>(descriptor);
    result = HostMemory::import(given, sizeBytes, &memory_);
  } else if (readFlag(info[2])) {
    result = HostMemory::allocateShared(sizeBytes, isHuge, &memory_);
  } else {
    result = HostMemory::allocate(sizeBytes, isHuge, &memory_);
  }
  if (!result.ok()) throwResult(info.Env(), result);
}

std::shared_ptr<HostMemory> MemoryWrap::memoryOf(const Napi::Value& value, const char* name) {
  if (!value.IsObject() || !value.As<Napi::Object>().CheckTypeTag(&kMemoryTag)) {
    refuseType(value.Env(), name, "memory of this addon");
    return nullptr;
  }
  const MemoryWrap* wrap = Unwrap(value.As<Napi::Object>());
  if (wrap == nullptr) return nullptr;
  if (!wrap->isFreed_) return wrap->memory_;
  Napi::RangeError::New(value.Env(), std::string(name) + " was freed").ThrowAsJavaScriptException();
  return nullptr;
}

Napi::Value MemoryWrap::free(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  if (isFreed_) return env.Undefined();
  const uint64_t pins = memory_->pinCount();
  if (pins > 0) return throwResult(env, Result::busy("memory", pins));
  isFreed_ = true;
  Napi::ArrayBuffer buffer = buffer_.IsEmpty() ? Napi::ArrayBuffer() : buffer_.Value();
  // Detached by somebody else: ArrayBuffer.prototype.transfer moved the pages to a buffer that we don't
  // know. They go when that one goes; its finalizer has its own reference.
  const bool isMoved = !buffer.IsEmpty() && buffer.IsDetached();
  if (!buffer.IsEmpty() && !isMoved) buffer.Detach();
  buffer_.Reset();
  if (isMoved) {
    memory_.reset();
    return env.Undefined();
  }
  const Result result = memory_->free();
  return result.ok() ? env.Undefined() : throwResult(env, result);
}

Napi::Value MemoryWrap::buffer(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  if (isFreed_) return Napi::ArrayBuffer::New(env, 0);
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
  const uint64_t address = isFreed_ ? 0 : static_cast<uint64_t>(memory_->address());
  return Napi::BigInt::New(info.Env(), address);
}

Napi::Value MemoryWrap::descriptor(const Napi::CallbackInfo& info) {
  return Napi::Number::New(info.Env(), isFreed_ ? -1 : memory_->descriptor());
}

}  // namespace kvferry
