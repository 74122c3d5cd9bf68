// Passing of open descriptors as JS calls it: one attempt, never a wait. JS thread only.
#pragma once

#include "napi_setup.h"

namespace kvferry {

/** Arguments: socket. Answers `{ fd, message }`, or null while there is none. */
Napi::Value receivedDescriptor(const Napi::CallbackInfo& info);

/** Arguments: socket, fd, message. Answers whether it was sent; false while there is no room. */
Napi::Value sentDescriptor(const Napi::CallbackInfo& info);

}  // namespace kvferry
