// Outcome of everything in the half that doesn't know Node. Nothing here throws; a function either
// returns a Result or can't fail. The binding maps `status` to an error class and code, and uses
// the other fields for its details. Used on every thread.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

namespace kvferry {

enum class [[nodiscard]] Status : uint8_t {
  kOk = 0,
  /** Caller's mistake: RangeError. */
  kOutOfRange,
  /** Caller's mistake: a handle that is stale, foreign or of another kind. RangeError. */
  kInvalidHandle,
  /** ERR_KV_LIMIT: `limit`, `value` and `max` are set. */
  kLimit,
  /** ERR_KV_CLOSED. */
  kClosed,
  /** ERR_KV_BUSY: `value` is the number of users. */
  kBusy,
  /** ERR_KV_MESSAGE_INVALID: bytes of a peer that make no sense. */
  kMessageInvalid,
  /** ERR_KV_PEER_INCOMPATIBLE: the metadata names another agent; `detail` is the name found. */
  kPeerMismatch,
  /** ERR_KV_DEADLINE. */
  kDeadline,
  /** ERR_NIXL, or ERR_KV_TRANSFER_FAILED for a transfer: `operation` and `nixl` are set. */
  kNixl,
  /** ERR_NIXL_UNAVAILABLE: the library can't be loaded or used; `detail` says why. */
  kUnavailable,
  /** ERR_KV_UNSUPPORTED: `operation` names the capability. */
  kUnsupported,
  /** ERR_CUDA: the driver refused; `operation` is ours, `detail` the driver's name for it. */
  kCuda,
  /** ERR_CUDA_UNAVAILABLE: no driver, or no GPU; `detail` says which. */
  kCudaUnavailable,
  /** ERR_NIXL: the agent's thread or the library failed before; nothing more is accepted. */
  kBroken,
};

/** The name that binding.ts declares (`NativeStatus`), for example "outOfRange". */
const char* statusName(Status status) noexcept;

/** "SUCCESS", "BACKEND", ... for a return value of the C API; "UNKNOWN" for others. */
const char* nixlStatusName(int status) noexcept;

struct [[nodiscard]] Result {
  Status status = Status::kOk;
  /** Return value of the C API, if status is kNixl. */
  int nixl = 0;
  /** The C API function without its prefix ("post_xfer_req"), or what of ours refused. Static. */
  const char* operation = "";
  /** Name in limits.h, if status is kLimit. Static. */
  const char* limit = "";
  uint64_t value = 0;
  uint64_t max = 0;
  /** A sentence for people; may be empty. */
  std::string detail;

  bool ok() const noexcept { return status == Status::kOk; }

  static Result success() { return {}; }

  static Result failure(Status status, const char* operation, std::string detail = {}) {
    Result result;
    result.status = status;
    result.operation = operation;
    result.detail = std::move(detail);
    return result;
  }

  static Result outOfRange(const char* operation, std::string detail) {
    return failure(Status::kOutOfRange, operation, std::move(detail));
  }

  static Result overLimit(const char* limit, uint64_t value, uint64_t max) {
    Result result = failure(Status::kLimit, "limit");
    result.limit = limit;
    result.value = value;
    result.max = max;
    return result;
  }

  static Result busy(const char* operation, uint64_t users, std::string detail = {}) {
    Result result = failure(Status::kBusy, operation, std::move(detail));
    result.value = users;
    return result;
  }

  static Result nixlFailure(const char* operation, int nixl, std::string detail = {}) {
    Result result = failure(Status::kNixl, operation, std::move(detail));
    result.nixl = nixl;
    return result;
  }
};

}  // namespace kvferry
