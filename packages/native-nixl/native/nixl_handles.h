// Move-only owners of the library's objects. Each remembers the table that it was made with and
// destroys itself once. Only the agent's thread makes, uses and destroys them. A TransferRequest
// without final status is never released: the library answers "released" and goes on writing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

#include "memory.h"
#include "nixl_api.h"

namespace kvferry {

/** The library's word for where memory lies. */
inline int nixlMemory(const MemoryPlace& place) noexcept {
  return place.kind == MemoryKind::kDevice ? kNixlMemoryVram : kNixlMemoryDram;
}

/** `Destroy` is a pointer to the member of NixlApi that frees the object. */
template <int (*NixlApi::*Destroy)(NixlHandle)>
class NixlObject {
 public:
  NixlObject() = default;
  NixlObject(const NixlApi& api, NixlHandle handle) noexcept : api_(&api), handle_(handle) {}
  ~NixlObject() { reset(); }
  NixlObject(NixlObject&& other) noexcept
      : api_(other.api_), handle_(std::exchange(other.handle_, nullptr)) {}
  NixlObject& operator=(NixlObject&& other) noexcept {
    if (this != &other) {
      reset();
      api_ = other.api_;
      handle_ = std::exchange(other.handle_, nullptr);
    }
    return *this;
  }
  NixlObject(const NixlObject&) = delete;
  NixlObject& operator=(const NixlObject&) = delete;

  NixlHandle get() const noexcept { return handle_; }
  explicit operator bool() const noexcept { return handle_ != nullptr; }

  void reset() noexcept {
    if (handle_ != nullptr) (api_->*Destroy)(std::exchange(handle_, nullptr));
  }
  /** Gives up ownership without destroying: for what must outlive us. */
  NixlHandle leak() noexcept { return std::exchange(handle_, nullptr); }

 private:
  const NixlApi* api_ = nullptr;
  NixlHandle handle_ = nullptr;
};

using NixlAgentHandle = NixlObject<&NixlApi::destroy_agent>;
using NixlBackend = NixlObject<&NixlApi::destroy_backend>;
using NixlParams = NixlObject<&NixlApi::destroy_params>;
using NixlOptions = NixlObject<&NixlApi::destroy_opt_args>;
using NixlRegistrationList = NixlObject<&NixlApi::destroy_reg_dlist>;
using NixlTransferList = NixlObject<&NixlApi::destroy_xfer_dlist>;
using NixlNotificationMap = NixlObject<&NixlApi::destroy_notif_map>;

static_assert(std::is_nothrow_move_constructible_v<NixlBackend>);
static_assert(!std::is_copy_constructible_v<NixlBackend>);

/** One transfer request. The owner says when its status is final; before that, destruction leaks
 * it. */
class TransferRequest {
 public:
  TransferRequest() = default;
  TransferRequest(const NixlApi& api, NixlHandle agent, NixlHandle request) noexcept
      : api_(&api), agent_(agent), request_(request) {}
  ~TransferRequest() { release(); }
  TransferRequest(TransferRequest&& other) noexcept
      : api_(other.api_),
        agent_(other.agent_),
        request_(std::exchange(other.request_, nullptr)),
        isActive_(other.isActive_) {}
  TransferRequest& operator=(TransferRequest&& other) noexcept {
    if (this != &other) {
      release();
      api_ = other.api_;
      agent_ = other.agent_;
      request_ = std::exchange(other.request_, nullptr);
      isActive_ = other.isActive_;
    }
    return *this;
  }
  TransferRequest(const TransferRequest&) = delete;
  TransferRequest& operator=(const TransferRequest&) = delete;

  /** The library's answer, which is the first status. `options` may be null. */
  int post(NixlHandle options) noexcept {
    return keep(api_->post_xfer_req(agent_, request_, options));
  }
  bool isMade() const noexcept { return request_ != nullptr; }
  int poll() noexcept { return keep(api_->get_xfer_status(agent_, request_)); }

  void release() noexcept {
    if (request_ == nullptr || isActive_) return;
    api_->release_xfer_req(agent_, request_);
    api_->destroy_xfer_req(std::exchange(request_, nullptr));
  }

 private:
  int keep(int status) noexcept {
    isActive_ = status == kNixlInProgress;
    return status;
  }

  const NixlApi* api_ = nullptr;
  NixlHandle agent_ = nullptr;
  NixlHandle request_ = nullptr;
  bool isActive_ = false;
};
static_assert(std::is_nothrow_move_constructible_v<TransferRequest>);
static_assert(!std::is_copy_constructible_v<TransferRequest>);

}  // namespace kvferry
