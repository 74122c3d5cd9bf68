// Why a NIXL plugin doesn't load. The library itself answers only BACKEND for that, and writes the
// reason to its log; most plugins want libraries of a vendor. Asked after a failure, on the thread
// that met it. Loads nothing that the library hasn't tried to load.
#pragma once

#include <string>

namespace kvferry {

/**
 * The loader's words, which name the missing library, or the missing plugin file; empty when the
 * plugin loads (something else failed) or when it isn't known where the library's plugins are.
 */
std::string pluginLoadProblem(const std::string& libraryPath, const std::string& plugin);

}  // namespace kvferry
