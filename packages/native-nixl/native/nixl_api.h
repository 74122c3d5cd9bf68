// The C API of NIXL as a table of functions, filled by dlopen of an absolute path and never linked,
// so that the addon builds and loads without NIXL. Declarations are ours, checked against the
// machine code of 1.5.1. A loaded library stays loaded until the process ends: its threads and exit
// handlers may run. `loadNixl` may be called from any thread; the table is immutable afterwards.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "status.h"

namespace kvferry {

using NixlHandle = void*;

/** Layout of NIXL up to 1.5.1 (`listen_port` is an int). 40 bytes are read; the rest is padding for
 * safety. */
struct NixlAgentConfig {
  bool isProgressThreadEnabled = false;
  bool isListenThreadEnabled = false;
  int32_t listenPort = 0;
  /** 0 none, 1 strict, 2 read-write. */
  int32_t threadSync = 0;
  uint32_t workerCount = 0;
  uint64_t progressThreadDelayUs = 0;
  uint64_t listenThreadDelayUs = 0;
  bool isTelemetryCaptured = false;
  uint8_t padding[31] = {};
};
static_assert(sizeof(NixlAgentConfig) == 64);
static_assert(offsetof(NixlAgentConfig, listenPort) == 4);
static_assert(offsetof(NixlAgentConfig, threadSync) == 8);
static_assert(offsetof(NixlAgentConfig, progressThreadDelayUs) == 16);
static_assert(offsetof(NixlAgentConfig, isTelemetryCaptured) == 32);

inline constexpr int kNixlSuccess = 0;
inline constexpr int kNixlInProgress = 1;
inline constexpr int kNixlInvalidParameter = -1;
inline constexpr int kNixlBackend = -2;
inline constexpr int kNixlNotFound = -6;

inline constexpr int kNixlMemoryDram = 0;
inline constexpr int kNixlMemoryVram = 1;
inline constexpr int kNixlRead = 0;
inline constexpr int kNixlWrite = 1;

// X(return type, name without nixl_capi_, arguments): everything that we call, nothing else.
#define KVFERRY_NIXL_FUNCTIONS(X)                                                            \
  X(bool, is_stub, (void))                                                                   \
  X(int, create_configured_agent, (const char*, const NixlAgentConfig*, NixlHandle*))        \
  X(int, destroy_agent, (NixlHandle))                                                        \
  X(int, get_local_md, (NixlHandle, void**, size_t*))                                        \
  X(int, load_remote_md, (NixlHandle, const void*, size_t, char**))                          \
  X(int, invalidate_remote_md, (NixlHandle, const char*))                                    \
  X(int, agent_make_connection, (NixlHandle, const char*, NixlHandle))                       \
  X(int, create_backend, (NixlHandle, const char*, NixlHandle, NixlHandle*))                 \
  X(int, destroy_backend, (NixlHandle))                                                      \
  X(int, create_params, (NixlHandle*))                                                       \
  X(int, params_add, (NixlHandle, const char*, const char*))                                 \
  X(int, destroy_params, (NixlHandle))                                                       \
  X(int, create_opt_args, (NixlHandle*))                                                     \
  X(int, destroy_opt_args, (NixlHandle))                                                     \
  X(int, opt_args_add_backend, (NixlHandle, NixlHandle))                                     \
  X(int, opt_args_set_notif_msg, (NixlHandle, const void*, size_t))                          \
  X(int, opt_args_set_has_notif, (NixlHandle, bool))                                         \
  X(int, register_mem, (NixlHandle, NixlHandle, NixlHandle))                                 \
  X(int, deregister_mem, (NixlHandle, NixlHandle, NixlHandle))                               \
  X(int, create_reg_dlist, (int, NixlHandle*))                                               \
  X(int, destroy_reg_dlist, (NixlHandle))                                                    \
  X(int, reg_dlist_add_desc, (NixlHandle, uintptr_t, size_t, uint64_t, const void*, size_t)) \
  X(int, create_xfer_dlist, (int, NixlHandle*))                                              \
  X(int, destroy_xfer_dlist, (NixlHandle))                                                   \
  X(int, xfer_dlist_add_desc, (NixlHandle, uintptr_t, size_t, uint64_t))                     \
  X(int, create_xfer_req,                                                                    \
    (NixlHandle, int, NixlHandle, NixlHandle, const char*, NixlHandle*, NixlHandle))         \
  X(int, post_xfer_req, (NixlHandle, NixlHandle, NixlHandle))                                \
  X(int, get_xfer_status, (NixlHandle, NixlHandle))                                          \
  X(int, release_xfer_req, (NixlHandle, NixlHandle))                                         \
  X(int, destroy_xfer_req, (NixlHandle))                                                     \
  X(int, gen_notif, (NixlHandle, const char*, const void*, size_t, NixlHandle))              \
  X(int, get_notifs, (NixlHandle, NixlHandle, NixlHandle))                                   \
  X(int, create_notif_map, (NixlHandle*))                                                    \
  X(int, destroy_notif_map, (NixlHandle))                                                    \
  X(int, notif_map_size, (NixlHandle, size_t*))                                              \
  X(int, notif_map_get_agent_at, (NixlHandle, size_t, const char**))                         \
  X(int, notif_map_get_notifs_size, (NixlHandle, const char*, size_t*))                      \
  X(int, notif_map_get_notif, (NixlHandle, const char*, size_t, const void**, size_t*))      \
  X(int, notif_map_clear, (NixlHandle))

/** Which config struct the library reads. */
enum class NixlLayout : uint8_t {
  /** Up to 1.5.1: `nixl_capi_get_version` is absent. */
  kIntListenPort,
};

struct NixlApi {
#define KVFERRY_DECLARE(type, name, arguments) type(*name) arguments = nullptr;
  KVFERRY_NIXL_FUNCTIONS(KVFERRY_DECLARE)
#undef KVFERRY_DECLARE
  NixlLayout layout = NixlLayout::kIntListenPort;
  /** Absolute path that was loaded. */
  std::string path;
};

/**
 * Loads the library at an absolute path; a second call with the same path answers the same table.
 * kUnavailable: not absolute, not loadable (the loader's message), a missing symbol (named), a stub
 * library, or a layout that isn't known.
 */
Result loadNixl(const std::string& absolutePath, std::shared_ptr<const NixlApi>* api);

/** "int-listen-port" and so on, for `kvferry-nixl info`. */
const char* nixlLayoutName(NixlLayout layout) noexcept;

}  // namespace kvferry
