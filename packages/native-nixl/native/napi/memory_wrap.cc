#include "memory_wrap.h"

#include <climits>
#include <cstring>

#include "arguments.h"
#include "result_value.h"

namespace kvferry {

namespace {

/** Marks our objects, so that a foreign one is never unwrapped as ours. */
constexpr napi_type_tag kMemoryTag = {0x6b76666572727901, 0x8f3c2a51d07e44b9};

/** What is no int is no open descriptor either. With an exception: no number. */
int descriptorOf(const Napi::Value& value) {
  uint64_t descriptor = 0;
  if (!readInteger(value, "fd", &descriptor)) return -1;
  return descriptor > INT_MAX ? -1 : static_cast<int>(descriptor);
}

Result makeOnHost(const Napi::CallbackInfo& info, uint64_t sizeBytes, bool isHuge,
                  std::shared_ptr<Memory>* memory) {
  std::shared_ptr<HostMemory> made;
  Result result = info[2].IsNumber() ? HostMemory::import(descriptorOf(info[2]), sizeBytes, &made)
                  : readFlag(info[2]) ? HostMemory::allocateShared(sizeBytes, isHuge, &made)
                                      : HostMemory::allocate(sizeBytes, isHuge, &made);
  *memory = std::move(made);
  return result;
}

bool readDevice(const Napi::CallbackInfo& info, size_t at, std::string* library, uint64_t* device) {
  return readString(info[at], "library", library) && readInteger(info[at + 1], "device", device);
}

/** Also ok with a pending exception. */
Result makeOnDevice(const Napi::CallbackInfo& info, uint64_t sizeBytes, bool isVirtual,
                    std::shared_ptr<Memory>* memory) {
  std::string library;
  uint64_t ordinal = 0;
  if (!readDevice(info, 3, &library, &ordinal)) return Result::success();
  std::shared_ptr<CudaDevice> device;
  Result result = CudaDevice::open(library, ordinal, &device);
  if (!result.ok()) return result;
  std::shared_ptr<DeviceMemory> made;
  if (info[2].IsNumber()) {
    result = DeviceMemory::importDescriptor(device, descriptorOf(info[2]), sizeBytes, &made);
  } else if (info[2].IsTypedArray()) {
    const uint8_t* handle = nullptr;
    size_t handleBytes = 0;
    if (!readBytes(info[2], "handle", &handle, &handleBytes)) return Result::success();
    result = DeviceMemory::importHandle(device, handle, handleBytes, &made);
  } else if (isVirtual) {
    result = DeviceMemory::allocateVirtual(device, sizeBytes, &made);
  } else {
    result = DeviceMemory::allocate(device, sizeBytes, &made);
  }
  *memory = std::move(made);
  return result;
}

}  // namespace

Napi::Function MemoryWrap::define(Napi::Env env) {
  return DefineClass(env, "Memory",
                     {
                         InstanceMethod<&MemoryWrap::free>("free"),
                         InstanceMethod<&MemoryWrap::buffer>("buffer"),
                         InstanceMethod<&MemoryWrap::address>("address"),
                         InstanceMethod<&MemoryWrap::descriptor>("descriptor"),
                         InstanceMethod<&MemoryWrap::sizeBytes>("sizeBytes"),
                         InstanceMethod<&MemoryWrap::isTarget>("isTarget"),
                         InstanceMethod<&MemoryWrap::lockFor>("lockFor"),
                         InstanceMethod<&MemoryWrap::exportHandle>("exportHandle"),
                         InstanceMethod<&MemoryWrap::exportDescriptor>("exportDescriptor"),
                         InstanceMethod<&MemoryWrap::read>("read"),
                         InstanceMethod<&MemoryWrap::write>("write"),
                     });
}

MemoryWrap::MemoryWrap(const Napi::CallbackInfo& info) : ObjectWrap(info) {
  info.This().As<Napi::Object>().TypeTag(&kMemoryTag);
  uint64_t sizeBytes = 0;
  if (!readInteger(info[0], "sizeBytes", &sizeBytes)) return;
  const bool isHuge = readFlag(info[1]);
  Result result = info.Length() > 3 ? makeOnDevice(info, sizeBytes, isHuge, &memory_)
                                    : makeOnHost(info, sizeBytes, isHuge, &memory_);
  if (info.Env().IsExceptionPending()) return;
  if (!result.ok()) throwResult(info.Env(), result);
}

std::shared_ptr<Memory> MemoryWrap::memoryOf(const Napi::Value& value, const char* name) {
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
  if (isFreed_ || memory_->isDevice()) return Napi::ArrayBuffer::New(env, 0);
  if (!buffer_.IsEmpty()) {
    Napi::ArrayBuffer existing = buffer_.Value();
    if (!existing.IsEmpty()) return existing;
  }
  // The finalizer only drops a reference: at the end of an environment it may run while an agent thread
  // still copies, and the agent's pin keeps the pages.
  auto* owner = new std::shared_ptr<Memory>(memory_);
  Napi::ArrayBuffer created = Napi::ArrayBuffer::New(
      env, memory_->data(), static_cast<size_t>(memory_->sizeBytes()),
      [](Napi::Env, void*, std::shared_ptr<Memory>* held) { delete held; }, owner);
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
  const auto* host = isFreed_ ? nullptr : dynamic_cast<HostMemory*>(memory_.get());
  return Napi::Number::New(info.Env(), host == nullptr ? -1 : host->descriptor());
}

Napi::Value MemoryWrap::sizeBytes(const Napi::CallbackInfo& info) {
  return Napi::Number::New(info.Env(), static_cast<double>(memory_->sizeBytes()));
}

Napi::Value MemoryWrap::isTarget(const Napi::CallbackInfo& info) {
  return Napi::Boolean::New(info.Env(), memory_->isTarget());
}

Napi::Value MemoryWrap::lockFor(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  std::string library;
  uint64_t ordinal = 0;
  if (!readDevice(info, 0, &library, &ordinal)) return env.Undefined();
  std::shared_ptr<CudaDevice> device;
  Result result = CudaDevice::open(library, ordinal, &device);
  auto* host = dynamic_cast<HostMemory*>(memory_.get());
  if (result.ok() && host == nullptr) result = Result::outOfRange("lockFor", "no host memory");
  if (result.ok()) result = host->lockFor(device);
  return result.ok() ? env.Undefined() : throwResult(env, result);
}

DeviceMemory* MemoryWrap::onDevice(Napi::Env env) const {
  auto* memory = isFreed_ ? nullptr : dynamic_cast<DeviceMemory*>(memory_.get());
  if (memory == nullptr) {
    Napi::RangeError::New(env, isFreed_ ? "memory was freed" : "memory of the host")
        .ThrowAsJavaScriptException();
  }
  return memory;
}

Napi::Value MemoryWrap::exportHandle(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  const DeviceMemory* memory = onDevice(env);
  if (memory == nullptr) return env.Undefined();
  DeviceHandle handle;
  const Result result = memory->exportHandle(&handle);
  if (!result.ok()) return throwResult(env, result);
  Napi::Uint8Array bytes = Napi::Uint8Array::New(env, handle.size());
  if (!bytes.IsEmpty()) std::memcpy(bytes.Data(), handle.data(), handle.size());
  return bytes;
}

Napi::Value MemoryWrap::exportDescriptor(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  const DeviceMemory* memory = onDevice(env);
  if (memory == nullptr) return env.Undefined();
  int descriptor = -1;
  const Result result = memory->exportDescriptor(&descriptor);
  if (!result.ok()) return throwResult(env, result);
  return Napi::Number::New(env, descriptor);
}

Napi::Value MemoryWrap::read(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  DeviceMemory* memory = onDevice(env);
  uint64_t offset = 0;
  const uint8_t* bytes = nullptr;
  size_t count = 0;
  if (memory == nullptr || !readInteger(info[0], "offset", &offset) ||
      !readBytes(info[1], "into", &bytes, &count)) {
    return env.Undefined();
  }
  const Result result = memory->read(offset, const_cast<uint8_t*>(bytes), count);
  return result.ok() ? env.Undefined() : throwResult(env, result);
}

Napi::Value MemoryWrap::write(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  DeviceMemory* memory = onDevice(env);
  uint64_t offset = 0;
  const uint8_t* bytes = nullptr;
  size_t count = 0;
  if (memory == nullptr || !readInteger(info[0], "offset", &offset) ||
      !readBytes(info[1], "from", &bytes, &count)) {
    return env.Undefined();
  }
  const Result result = memory->write(offset, bytes, count);
  return result.ok() ? env.Undefined() : throwResult(env, result);
}

}  // namespace kvferry
