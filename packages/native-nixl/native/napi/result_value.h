// A native Result as JS sees it: a plain object that the TypeScript half turns into an error of the
// contract (nixl-error.ts). JS thread only.
#pragma once

#include "../status.h"
#include "napi_setup.h"

namespace kvferry {

/** `{ status, operation, nixl, limit, value, max, detail }`; null when the result is ok. */
Napi::Value resultValue(Napi::Env env, const Result& result);

/** Throws an Error whose `failure` is `resultValue(result)`. Returns undefined, for `return`. */
Napi::Value throwResult(Napi::Env env, const Result& result);

}  // namespace kvferry
