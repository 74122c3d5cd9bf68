// Which NIXL plugins the library lists, and which of them really load (their parameters can be asked for:
// the list also names plugins whose libraries are missing). For `kvferry-nixl info` only: it blocks, and
// it uses functions that agents never need, so they aren't part of NixlApi. JS thread.
#pragma once

#include <string>

#include "napi_setup.h"

namespace kvferry {

/** `[{ name, isLoadable }]`, empty where the library can't tell; throws when it can't be loaded. */
Napi::Value probePlugins(Napi::Env env, const std::string& libraryPath);

}  // namespace kvferry
