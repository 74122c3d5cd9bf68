// The fake's C functions: what goes with a call.
#include "fake_capi.h"

using namespace fakenixl;

FAKE_EXPORT int nixl_capi_create_opt_args(void** options) {
  const Lock lock(mutex());
  *options = new Options;
  count("live_options");
  return kSuccess;
}

FAKE_EXPORT int nixl_capi_destroy_opt_args(void* options) {
  const Lock lock(mutex());
  delete static_cast<Options*>(options);
  count("live_options", -1);
  return kSuccess;
}

FAKE_EXPORT int nixl_capi_opt_args_add_backend(void* options, void* backend) {
  static_cast<Options*>(options)->backends.push_back(*static_cast<std::string*>(backend));
  return kSuccess;
}

FAKE_EXPORT int nixl_capi_opt_args_set_notif_msg(void* options, const void* bytes, size_t size) {
  static_cast<Options*>(options)->notification.assign(static_cast<const char*>(bytes), size);
  return kSuccess;
}

FAKE_EXPORT int nixl_capi_opt_args_set_has_notif(void* options, bool isSet) {
  static_cast<Options*>(options)->hasNotification = isSet;
  return kSuccess;
}
