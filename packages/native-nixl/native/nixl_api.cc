#include "nixl_api.h"

#include <dlfcn.h>

#include <mutex>
#include <vector>

namespace kvferry {
namespace {

Result noLibrary(std::string detail) {
  return Result::failure(Status::kUnavailable, "loadNixl", std::move(detail));
}

/** Fills the table, or names the first symbol that is missing. */
Result resolveAll(void* library, NixlApi* api) {
#define KVFERRY_RESOLVE(type, name, arguments)                                                  \
  api->name = reinterpret_cast<type(*) arguments>(dlsym(library, "nixl_capi_" #name));          \
  if (api->name == nullptr) {                                                                   \
    return noLibrary("the library lacks the symbol nixl_capi_" #name " (" + api->path + ")"); \
  }
  KVFERRY_NIXL_FUNCTIONS(KVFERRY_RESOLVE)
#undef KVFERRY_RESOLVE
  return Result::success();
}

struct LoadedLibraries {
  std::mutex mutex;
  std::vector<std::shared_ptr<const NixlApi>> tables;
};

/** Never destroyed: agents of other threads may outlive the exit handlers. */
LoadedLibraries& loadedLibraries() {
  static auto* libraries = new LoadedLibraries;
  return *libraries;
}

}  // namespace

Result loadNixl(const std::string& absolutePath, std::shared_ptr<const NixlApi>* api) {
  if (absolutePath.empty() || absolutePath[0] != '/') {
    return noLibrary("the path of the library must be absolute: " + absolutePath);
  }
  LoadedLibraries& loaded = loadedLibraries();
  std::lock_guard<std::mutex> lock(loaded.mutex);
  for (const auto& table : loaded.tables) {
    if (table->path == absolutePath) {
      *api = table;
      return Result::success();
    }
  }
  void* library = dlopen(absolutePath.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = dlerror();
    return noLibrary(reason != nullptr ? reason : "dlopen failed");
  }
  auto table = std::make_shared<NixlApi>();
  table->path = absolutePath;
  Result resolved = resolveAll(library, table.get());
  if (!resolved.ok()) return resolved;
  if (table->is_stub()) {
    return noLibrary("the library is the stub of NIXL, which does nothing (" + absolutePath +
                       ")");
  }
  // The library that has this function may read another config struct; guessing would be silent.
  if (dlsym(library, "nixl_capi_get_version") != nullptr) {
    return noLibrary(
        "this NIXL has a newer C API whose config layout isn't known; install 1.5.1 (" +
        absolutePath + ")");
  }
  table->layout = NixlLayout::kIntListenPort;
  loaded.tables.push_back(table);
  *api = table;
  return Result::success();
}

const char* nixlLayoutName(NixlLayout layout) noexcept {
  switch (layout) {
    case NixlLayout::kIntListenPort:
      return "int-listen-port";
  }
  return "unknown";
}

}  // namespace kvferry
