// Names of statuses: ours as binding.ts declares them (`NativeStatus`), and the library's.
#include "status.h"

namespace kvferry {

const char* statusName(Status status) noexcept {
  switch (status) {
    case Status::kOk:
      return "ok";
    case Status::kOutOfRange:
      return "outOfRange";
    case Status::kInvalidHandle:
      return "invalidHandle";
    case Status::kLimit:
      return "limit";
    case Status::kClosed:
      return "closed";
    case Status::kBusy:
      return "busy";
    case Status::kMessageInvalid:
      return "messageInvalid";
    case Status::kPeerMismatch:
      return "peerMismatch";
    case Status::kDeadline:
      return "deadline";
    case Status::kNixl:
      return "nixl";
    case Status::kUnavailable:
      return "unavailable";
    case Status::kUnsupported:
      return "unsupported";
    case Status::kCuda:
      return "cuda";
    case Status::kCudaUnavailable:
      return "cudaUnavailable";
    case Status::kBroken:
      return "broken";
  }
  return "broken";
}

const char* nixlStatusName(int status) noexcept {
  switch (status) {
    case 0:
      return "SUCCESS";
    case 1:
      return "IN_PROG";
    case -1:
      return "INVALID_PARAM";
    case -2:
      return "BACKEND";
    case -3:
      return "INVALID_STATE";
    case -4:
      return "EXCEPTION";
    case -5:
      return "NO_TELEMETRY";
    case -6:
      return "NOT_FOUND";
    default:
      return "UNKNOWN";
  }
}

}  // namespace kvferry
