// The export table of the addon, and nothing else. One instance per environment (main thread, each
// worker); what is process-wide is the loaded library, the environment variables and the exit guard.
#include <cstdio>

#include "../environment.h"
#include "../limits.h"
#include "../nixl_api.h"
#include "../slab_wire.h"
#include "agent_wrap.h"
#include "arguments.h"
#include "cuda_info_value.h"
#include "descriptor_value.h"
#include "event_wrap.h"
#include "kernels_wrap.h"
#include "limits_value.h"
#include "memory_wrap.h"
#include "napi_setup.h"
#include "plugin_probe.h"
#include "process_log.h"
#include "result_value.h"

namespace kvferry {

class NixlAddon final : public Napi::Addon<NixlAddon> {
 public:
  NixlAddon(Napi::Env env, Napi::Object exports) {
    DefineAddon(exports, {
                             InstanceMethod<&NixlAddon::loadLibrary>("loadLibrary"),
                             InstanceMethod<&NixlAddon::applyVariables>("applyVariables"),
                             InstanceMethod<&NixlAddon::flushLog>("flushLog"),
                             InstanceMethod<&NixlAddon::probePlugins>("probePlugins"),
                             InstanceMethod<&NixlAddon::cudaInfo>("cudaInfo"),
                             InstanceMethod<&NixlAddon::planSlabs>("planSlabs"),
                             InstanceMethod<&NixlAddon::tryReceiveFd>("tryReceiveFd"),
                             InstanceMethod<&NixlAddon::trySendFd>("trySendFd"),
                             InstanceValue("limits", limitsValue(env)),
                             InstanceValue("Agent", AgentWrap::define(env)),
                             InstanceValue("Kernels", KernelsWrap::define(env)),
                             InstanceValue("Memory", MemoryWrap::define(env)),
                             InstanceValue("DeviceEvent", EventWrap::define(env)),
                         });
  }

 private:
  /** `loadLibrary(path)` → name of the struct layout. */
  Napi::Value loadLibrary(const Napi::CallbackInfo& info) {
    std::string path;
    if (!readString(info[0], "path", &path)) return info.Env().Undefined();
    std::shared_ptr<const NixlApi> api;
    const Result result = loadNixl(path, &api);
    if (!result.ok()) return throwResult(info.Env(), result);
    return Napi::String::New(info.Env(), nixlLayoutName(api->layout));
  }

  /** `applyVariables(names, values, logFile)` → path of the log in force. */
  Napi::Value applyVariables(const Napi::CallbackInfo& info) {
    const Napi::Env env = info.Env();
    std::vector<std::string> names;
    std::vector<std::string> values;
    EnvironmentOptions options;
    if (!readStrings(info[0], "names", &names) || !readStrings(info[1], "values", &values) ||
        !readString(info[2], "logFile", &options.logFile)) {
      return env.Undefined();
    }
    for (size_t index = 0; index < names.size() && index < values.size(); ++index) {
      options.variables.emplace_back(names[index], values[index]);
    }
    forgetInheritedLog();
    if (options.logFile.empty()) options.logFile = processLogPath();
    std::string log;
    const Result result = applyEnvironment(options, &log);
    if (!result.ok()) return throwResult(env, result);
    return Napi::String::New(env, log);
  }

  /** `flushLog()`: UCX writes through a buffer of the C library, and what it wrote last stays in there. */
  Napi::Value flushLog(const Napi::CallbackInfo& info) {
    std::fflush(nullptr);
    return info.Env().Undefined();
  }

  /** `probePlugins(path)` → `[{ name, isLoadable }]`. Blocks for about half a second. */
  Napi::Value probePlugins(const Napi::CallbackInfo& info) {
    std::string path;
    if (!readString(info[0], "path", &path)) return info.Env().Undefined();
    return kvferry::probePlugins(info.Env(), path);
  }

  /** `cudaInfo(library)` → see `cudaInfoValue`. */
  Napi::Value cudaInfo(const Napi::CallbackInfo& info) {
    std::string library;
    if (!readString(info[0], "library", &library)) return info.Env().Undefined();
    CudaInfo found;
    const Result result = readCudaInfo(library, &found);
    return result.ok() ? cudaInfoValue(info.Env(), found) : throwResult(info.Env(), result);
  }

  /** `planSlabs(lengths, slabBytes)` → end and list bytes of each slab: the rule that agents cut by. */
  Napi::Value planSlabs(const Napi::CallbackInfo& info) {
    const Napi::Env env = info.Env();
    const double* lengths = nullptr;
    size_t count = 0;
    uint64_t slabBytes = 0;
    if (!readElements(env, info[0], napi_float64_array, "lengths", &lengths, &count) ||
        !readInteger(info[1], "slabBytes", &slabBytes)) {
      return env.Undefined();
    }
    std::vector<double> ends;
    SlabFill fill(slabBytes);
    double end = 0;
    const auto close = [&] {
      end += static_cast<double>(fill.payloadBytes());
      ends.insert(ends.end(), {end, static_cast<double>(fill.listBytes())});
      fill = SlabFill(slabBytes);
    };
    for (size_t i = 0; i < count; i++) {
      for (auto left = static_cast<uint64_t>(lengths[i]); left > 0;) {
        bool startsRun = false;
        const uint64_t taken = fill.offer(left, &startsRun);
        if (taken == 0 && fill.payloadBytes() == 0) return env.Null();
        left -= taken;
        if (left > 0) close();
      }
    }
    if (fill.payloadBytes() > 0) close();
    Napi::Array array = Napi::Array::New(env, ends.size());
    for (uint32_t i = 0; i < ends.size(); i++) array.Set(i, ends[i]);
    return array;
  }

  /** `tryReceiveFd(socket)` → `{ fd, message }`, or null: nothing there yet. */
  Napi::Value tryReceiveFd(const Napi::CallbackInfo& info) { return receivedDescriptor(info); }

  /** `trySendFd(socket, fd, message)` → whether there was room. */
  Napi::Value trySendFd(const Napi::CallbackInfo& info) { return sentDescriptor(info); }
};

}  // namespace kvferry

using kvferry::NixlAddon;
NODE_API_ADDON(NixlAddon)
