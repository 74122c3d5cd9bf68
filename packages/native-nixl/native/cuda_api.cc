#include "cuda_api.h"

#include <dlfcn.h>

#include <mutex>
#include <vector>

namespace kvferry {
namespace {

Result noDriver(std::string detail) {
  return Result::failure(Status::kCudaUnavailable, "loadCuda", std::move(detail));
}

Result resolveAll(void* library, CudaApi* api) {
#define KVFERRY_RESOLVE(name, symbol, arguments)                                      \
  api->name = reinterpret_cast<int(*) arguments>(dlsym(library, #symbol));            \
  if (api->name == nullptr) {                                                         \
    return noDriver("the driver " + api->library + " lacks the symbol " #symbol);  \
  }
  KVFERRY_CUDA_FUNCTIONS(KVFERRY_RESOLVE)
#undef KVFERRY_RESOLVE
  return Result::success();
}

struct LoadedDrivers {
  std::mutex mutex;
  std::vector<std::shared_ptr<const CudaApi>> tables;
};

/** Never destroyed: threads may outlive the exit handlers. */
LoadedDrivers& loadedDrivers() {
  static auto* drivers = new LoadedDrivers;
  return *drivers;
}

std::string nameOf(const CudaApi& api, int status) {
  const char* name = nullptr;
  if (api.errorName(status, &name) == cuda::kSuccess && name != nullptr) return name;
  return "CUDA error " + std::to_string(status);
}

}  // namespace

Result CudaApi::check(int status, const char* operation) const {
  if (status == cuda::kSuccess) return Result::success();
  if (status == cuda::kOutOfMemory) {
    Result result = Result::overLimit("memorySizeBytes", 0, 0);
    result.detail = std::string(operation) + ": the GPU has no memory of this size";
    return result;
  }
  return Result::failure(Status::kCuda, operation, nameOf(*this, status));
}

Result loadCuda(const std::string& library, std::shared_ptr<const CudaApi>* api) {
  LoadedDrivers& loaded = loadedDrivers();
  std::lock_guard<std::mutex> lock(loaded.mutex);
  for (const auto& table : loaded.tables) {
    if (table->library == library) {
      *api = table;
      return Result::success();
    }
  }
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* reason = dlerror();
    return noDriver(reason != nullptr ? reason : "dlopen failed");
  }
  auto table = std::make_shared<CudaApi>();
  table->library = library;
  Result resolved = resolveAll(handle, table.get());
  if (!resolved.ok()) return resolved;
  const int started = table->init(0);
  if (started == cuda::kNoDevice) return noDriver("the driver sees no GPU");
  if (started != cuda::kSuccess) return noDriver("cuInit answered " + nameOf(*table, started));
  if (table->driverVersion(&table->driver) != cuda::kSuccess) table->driver = 0;
  loaded.tables.push_back(table);
  *api = table;
  return Result::success();
}

}  // namespace kvferry
