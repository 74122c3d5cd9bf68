#include "plugin_probe.h"

#include <memory>

#include <dlfcn.h>

#include "../nixl_api.h"
#include "result_value.h"

namespace kvferry {

namespace {

struct ProbeFunctions {
  int (*getAvailablePlugins)(NixlHandle, NixlHandle*) = nullptr;
  int (*getPluginParams)(NixlHandle, const char*, NixlHandle*, NixlHandle*) = nullptr;
  int (*stringListSize)(NixlHandle, size_t*) = nullptr;
  int (*stringListGet)(NixlHandle, size_t, const char**) = nullptr;
  int (*destroyStringList)(NixlHandle) = nullptr;
  int (*destroyMemList)(NixlHandle) = nullptr;

  bool load(void* library) {
    const auto find = [library](auto* function, const char* name) {
      *reinterpret_cast<void**>(function) = ::dlsym(library, name);
      return *function != nullptr;
    };
    return find(&getAvailablePlugins, "nixl_capi_get_available_plugins") &&
           find(&getPluginParams, "nixl_capi_get_plugin_params") &&
           find(&stringListSize, "nixl_capi_string_list_size") &&
           find(&stringListGet, "nixl_capi_string_list_get") &&
           find(&destroyStringList, "nixl_capi_destroy_string_list") &&
           find(&destroyMemList, "nixl_capi_destroy_mem_list");
  }
};

}  // namespace

Napi::Value probePlugins(Napi::Env env, const std::string& libraryPath) {
  std::shared_ptr<const NixlApi> api;
  const Result result = loadNixl(libraryPath, &api);
  if (!result.ok()) return throwResult(env, result);
  Napi::Array plugins = Napi::Array::New(env);
  // Loaded already and for ever, so this only finds the same library again.
  void* library = ::dlopen(libraryPath.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  ProbeFunctions functions;
  if (library == nullptr || !functions.load(library)) return plugins;
  const NixlAgentConfig config;
  NixlHandle agent = nullptr;
  NixlHandle names = nullptr;
  if (api->create_configured_agent("kvferry-probe", &config, &agent) != kNixlSuccess) return plugins;
  size_t count = 0;
  if (functions.getAvailablePlugins(agent, &names) == kNixlSuccess) {
    functions.stringListSize(names, &count);
  }
  for (size_t index = 0; index < count; ++index) {
    const char* name = nullptr;
    if (functions.stringListGet(names, index, &name) != kNixlSuccess) continue;
    NixlHandle memories = nullptr;
    NixlHandle params = nullptr;
    const bool isLoadable =
        functions.getPluginParams(agent, name, &memories, &params) == kNixlSuccess;
    if (memories != nullptr) functions.destroyMemList(memories);
    if (params != nullptr) api->destroy_params(params);
    Napi::Object plugin = Napi::Object::New(env);
    plugin.Set("name", name);
    plugin.Set("isLoadable", isLoadable);
    plugins.Set(plugins.Length(), plugin);
  }
  if (names != nullptr) functions.destroyStringList(names);
  api->destroy_agent(agent);
  ::dlclose(library);
  return plugins;
}

}  // namespace kvferry
