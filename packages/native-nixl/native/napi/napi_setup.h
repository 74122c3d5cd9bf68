// The only include of <napi.h>, with every define that changes what it means. Files that include this one
// are the binding: they know Node. The rest of the native half never does.
#pragma once

// One binary serves every Node from 18 on. The build sets the same.
#ifndef NAPI_VERSION
#define NAPI_VERSION 8
#endif
static_assert(NAPI_VERSION == 8);
// Node-API reports failures by status; nothing here throws C++ exceptions.
#ifndef NODE_ADDON_API_DISABLE_CPP_EXCEPTIONS
#define NODE_ADDON_API_DISABLE_CPP_EXCEPTIONS
#endif
#define NODE_ADDON_API_DISABLE_DEPRECATED
// A worker can be terminated at any moment, also inside a call of ours: from then on every call that may
// run JS fails. That is no error to die from. What such calls return is empty and must be checked.
#define NODE_API_SWALLOW_UNTHROWABLE_EXCEPTIONS

#include <napi.h>
