#include "plugin_load.h"

#include <dlfcn.h>
#include <sys/stat.h>

#include <cstdlib>
#include <vector>

namespace kvferry {
namespace {

bool exists(const std::string& path) {
  struct stat status = {};
  return stat(path.c_str(), &status) == 0;
}

}  // namespace

std::string pluginLoadProblem(const std::string& libraryPath, const std::string& plugin) {
  if (plugin.empty() || plugin.find('/') != std::string::npos) return {};
  // Where the library looks: the variable first, then beside itself.
  std::vector<std::string> folders;
  const char* named = std::getenv("NIXL_PLUGIN_DIR");
  if (named != nullptr && *named != '\0') folders.emplace_back(named);
  folders.push_back(libraryPath.substr(0, libraryPath.rfind('/')) + "/plugins");
  std::string problem;
  for (const std::string& folder : folders) {
    if (!exists(folder)) continue;
    const std::string file = folder + "/libplugin_" + plugin + ".so";
    if (!exists(file)) {
      if (problem.empty()) problem = "there is no " + file;
      continue;
    }
    void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr) {
      dlclose(library);
      return {};
    }
    const char* reason = dlerror();
    return reason != nullptr ? reason : file + " can't be loaded";
  }
  return problem;
}

}  // namespace kvferry
