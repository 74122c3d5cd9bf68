// The part of NIXL's C API that a bare transfer loop needs, as a table filled by dlopen. Declared anew
// here, not shared with the product: the baseline must not change when the product does.
#pragma once

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

using Handle = void*;

/** Layout of NIXL up to 1.5.1; all zero is what the product uses: no progress thread, no locks. */
struct AgentConfig {
  uint8_t bytes[64] = {};
};

#define BARE_NIXL_FUNCTIONS(X)                                                          \
  X(create_configured_agent, (const char*, const AgentConfig*, Handle*))                \
  X(destroy_agent, (Handle))                                                            \
  X(get_local_md, (Handle, void**, size_t*))                                            \
  X(load_remote_md, (Handle, const void*, size_t, char**))                              \
  X(agent_make_connection, (Handle, const char*, Handle))                               \
  X(create_backend, (Handle, const char*, Handle, Handle*))                             \
  X(create_params, (Handle*))                                                           \
  X(create_opt_args, (Handle*))                                                         \
  X(destroy_opt_args, (Handle))                                                         \
  X(opt_args_set_notif_msg, (Handle, const void*, size_t))                              \
  X(opt_args_set_has_notif, (Handle, bool))                                             \
  X(register_mem, (Handle, Handle, Handle))                                             \
  X(create_reg_dlist, (int, Handle*))                                                   \
  X(reg_dlist_add_desc, (Handle, uintptr_t, size_t, uint64_t, const void*, size_t))     \
  X(create_xfer_dlist, (int, Handle*))                                                  \
  X(destroy_xfer_dlist, (Handle))                                                       \
  X(xfer_dlist_add_desc, (Handle, uintptr_t, size_t, uint64_t))                         \
  X(create_xfer_req, (Handle, int, Handle, Handle, const char*, Handle*, Handle))       \
  X(post_xfer_req, (Handle, Handle, Handle))                                            \
  X(get_xfer_status, (Handle, Handle))                                                  \
  X(release_xfer_req, (Handle, Handle))                                                 \
  X(destroy_xfer_req, (Handle))                                                         \
  X(get_notifs, (Handle, Handle, Handle))                                               \
  X(create_notif_map, (Handle*))                                                        \
  X(notif_map_clear, (Handle))

struct NixlTable {
#define BARE_DECLARE(name, arguments) int(*name) arguments = nullptr;
  BARE_NIXL_FUNCTIONS(BARE_DECLARE)
#undef BARE_DECLARE
};

/** Ends the process with a line that the harness shows. */
[[noreturn]] inline void die(const char* what, int status = 0) {
  std::printf("error %s (status %d)\n", what, status);
  std::fflush(stdout);
  // Not exit(): the library's exit handlers may hang beside an open transfer.
  std::_Exit(1);
}

inline void check(const char* what, int status) {
  if (status < 0) die(what, status);
}

inline NixlTable loadTable(const char* path) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) die(dlerror());
  NixlTable table;
#define BARE_RESOLVE(name, arguments)                                                          \
  table.name = reinterpret_cast<int(*) arguments>(dlsym(library, "nixl_capi_" #name));         \
  if (table.name == nullptr) die("missing symbol nixl_capi_" #name);
  BARE_NIXL_FUNCTIONS(BARE_RESOLVE)
#undef BARE_RESOLVE
  return table;
}
