#include "cuda_event.h"

#include <cstring>
#include <utility>

namespace kvferry {

CudaEvent::CudaEvent(std::shared_ptr<CudaDevice> device, Origin origin, CudaHandle event) noexcept
    : device_(std::move(device)),
      origin_(origin),
      event_(event),
      wasRecorded_(origin != Origin::kCreated) {}

CudaEvent::~CudaEvent() {
  // The driver keeps what still waits for it.
  if (origin_ != Origin::kBorrowed && device_->enter().ok()) device_->api().eventDestroy(event_);
}

Result CudaEvent::create(const std::shared_ptr<CudaDevice>& device,
                         std::shared_ptr<CudaEvent>* event) {
  const CudaApi& api = device->api();
  Result result = device->enter();
  if (!result.ok()) return result;
  CudaHandle made = nullptr;
  constexpr unsigned kFlags = cuda::kEventDisableTiming | cuda::kEventInterprocess;
  result = api.check(api.eventCreate(&made, kFlags), "eventCreate");
  if (result.ok()) event->reset(new CudaEvent(device, Origin::kCreated, made));
  return result;
}

Result CudaEvent::importHandle(const std::shared_ptr<CudaDevice>& device, const uint8_t* bytes,
                               size_t sizeBytes, std::shared_ptr<CudaEvent>* event) {
  CudaIpcHandle handle;
  if (sizeBytes != sizeof handle) {
    return Result::failure(Status::kMessageInvalid, "importDeviceEvent",
                           "a handle of an event has 64 bytes");
  }
  std::memcpy(&handle, bytes, sizeof handle);
  const CudaApi& api = device->api();
  Result result = device->enter();
  if (!result.ok()) return result;
  CudaHandle opened = nullptr;
  result = api.check(api.eventOpen(&opened, handle), "eventOpen");
  if (result.ok()) event->reset(new CudaEvent(device, Origin::kImported, opened));
  return result;
}

Result CudaEvent::borrow(const std::shared_ptr<CudaDevice>& device, uint64_t address,
                         std::shared_ptr<CudaEvent>* event) {
  if (address == 0) return Result::outOfRange("importDeviceEvent", "0 is no event");
  event->reset(new CudaEvent(device, Origin::kBorrowed, reinterpret_cast<CudaHandle>(address)));
  return Result::success();
}

Result CudaEvent::record(uint64_t stream) {
  if (origin_ != Origin::kCreated) {
    return Result::failure(Status::kUnsupported, "recording another's event",
                           "who made the event records it");
  }
  const CudaApi& api = device_->api();
  Result result = device_->enter();
  if (!result.ok()) return result;
  result = api.check(api.eventRecord(event_, reinterpret_cast<CudaHandle>(stream)), "eventRecord");
  if (result.ok()) wasRecorded_.store(true);
  return result;
}

Result CudaEvent::isDone(bool* done) const {
  *done = false;
  if (!wasRecorded()) return Result::success();
  const CudaApi& api = device_->api();
  Result result = device_->enter();
  if (!result.ok()) return result;
  const int status = api.eventQuery(event_);
  if (status == cuda::kNotReady) return result;
  result = api.check(status, "eventQuery");
  *done = result.ok();
  return result;
}

Result CudaEvent::exportHandle(CudaEventHandle* handle) const {
  if (origin_ != Origin::kCreated) {
    return Result::failure(Status::kUnsupported, "exporting another's event",
                           "who made the event passes its handle on");
  }
  const CudaApi& api = device_->api();
  Result result = device_->enter();
  if (!result.ok()) return result;
  CudaIpcHandle made;
  result = api.check(api.eventExport(&made, event_), "eventExport");
  if (result.ok()) std::memcpy(handle->data(), &made, sizeof made);
  return result;
}

}  // namespace kvferry
