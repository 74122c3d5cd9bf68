// One batch of an agent's events as arguments of the `onEvents` function (binding.ts, `NativeEvents`).
// Completions are one flat list of numbers, since a post may complete a thousand at once. JS thread only.
#pragma once

#include <vector>

#include "../agent.h"
#include "napi_setup.h"

namespace kvferry {

/** `[transfers, failures, notifications, commands, broken]`. */
std::vector<napi_value> eventsArguments(Napi::Env env, const AgentEvents& events);

}  // namespace kvferry
