#include "cuda_device.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "cuda_lane.h"
#include "limits.h"

namespace kvferry {
namespace {

/** Text for the driver's own compiler; made by cuda/compile.mjs. */
constexpr char kKernels[] =
#include "cuda/kernels.ptx.inc"
    ;

constexpr const char* kKernelNames[kCudaKernelCount] = {
    "kvferry_fill", "kvferry_digest",      "kvferry_copy_pieces",
    "kvferry_pack", "kvferry_move_listed", "kvferry_relayout",    "kvferry_move"};

struct OpenDevices {
  std::mutex mutex;
  std::vector<std::shared_ptr<CudaDevice>> devices;
};

/** Never destroyed: threads may outlive the exit handlers. */
OpenDevices& openDevices() {
  static auto* open = new OpenDevices;
  return *open;
}

std::string uuidText(const uint8_t* bytes) {
  std::string text = "GPU-";
  for (int i = 0; i < 16; i++) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", bytes[i]);
    text += digits;
  }
  return text;
}

}  // namespace

CudaDevice::CudaDevice(std::shared_ptr<const CudaApi> api, int ordinal) noexcept
    : api_(std::move(api)), ordinal_(ordinal) {}

CudaDevice::~CudaDevice() = default;

Result CudaDevice::open(const std::string& library, uint64_t ordinal,
                        std::shared_ptr<CudaDevice>* device) {
  std::shared_ptr<const CudaApi> api;
  Result loaded = loadCuda(library, &api);
  if (!loaded.ok()) return loaded;
  int count = 0;
  loaded = api->check(api->deviceCount(&count), "deviceCount");
  if (!loaded.ok()) return loaded;
  if (ordinal >= static_cast<uint64_t>(count)) {
    return Result::outOfRange("device", "GPU " + std::to_string(ordinal) + " of " +
                                            std::to_string(count) + ": no such one is visible");
  }
  OpenDevices& all = openDevices();
  std::lock_guard<std::mutex> lock(all.mutex);
  for (const auto& each : all.devices) {
    if (each->api_ == api && each->ordinal_ == static_cast<int>(ordinal)) {
      *device = each;
      return Result::success();
    }
  }
  std::shared_ptr<CudaDevice> made(new CudaDevice(std::move(api), static_cast<int>(ordinal)));
  Result started = made->start();
  if (!started.ok()) return started;
  all.devices.push_back(made);
  *device = std::move(made);
  return started;
}

Result CudaDevice::start() {
  int device = 0;
  int areHostPointersUsable = 0;
  Result result = api_->check(api_->deviceGet(&device, ordinal_), "deviceGet");
  if (!result.ok()) return result;
  result = api_->check(
      api_->deviceAttribute(&processorCount_, cuda::kAttributeProcessorCount, device), "attribute");
  if (!result.ok()) return result;
  result = api_->check(api_->deviceAttribute(&areHostPointersUsable,
                                             cuda::kAttributeHostPointersUsable, device),
                       "attribute");
  if (!result.ok()) return result;
  if (areHostPointersUsable == 0) {
    return Result::failure(Status::kUnsupported, "host addresses on the GPU",
                           "the GPU can't use the addresses of pinned host memory");
  }
  return api_->check(api_->contextRetain(&context_, device), "contextRetain");
}

Result CudaDevice::enter() const { return api_->check(api_->contextSet(context_), "contextSet"); }

Result CudaDevice::reach(int other) const {
  if (other == ordinal_) return Result::success();
  std::shared_ptr<CudaDevice> device;
  Result result = open(api_->library, static_cast<uint64_t>(other), &device);
  int isLinked = 0;
  if (result.ok()) {
    result = api_->check(api_->canAccessPeer(&isLinked, ordinal_, other), "canAccessPeer");
  }
  if (!result.ok()) return result;
  if (isLinked == 0) {
    return Result::failure(Status::kUnsupported, "path",
                           "GPU " + std::to_string(ordinal_) + " can't map memory of GPU " +
                               std::to_string(other));
  }
  result = enter();
  if (!result.ok()) return result;
  const int status = api_->contextEnablePeer(device->context_, 0);
  if (status == cuda::kPeerAccessAlreadyEnabled) return result;
  return api_->check(status, "contextEnablePeer");
}

Result CudaDevice::lockPages(uint8_t* data, uint64_t sizeBytes) {
  Result entered = enter();
  if (!entered.ok()) return entered;
  const unsigned flags = cuda::kHostRegisterPortable | cuda::kHostRegisterMapped;
  return api_->check(api_->hostRegister(data, sizeBytes, flags), "hostRegister");
}

void CudaDevice::unlockPages(uint8_t* data) noexcept {
  if (enter().ok()) api_->hostUnregister(data);
}

Result CudaDevice::takeLane(std::unique_ptr<CudaLane>* lane, uint64_t sizeBytes) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    // The smallest that suffices: pinned memory is slow to make, and large lanes are for those who need them.
    const auto fit = [&](const std::unique_ptr<CudaLane>& each) {
      const uint64_t size = each->sizeBytes();
      return size >= sizeBytes ? size : ~uint64_t{0} - size;
    };
    const auto best = std::min_element(lanes_.begin(), lanes_.end(), [&](const auto& a, const auto& b) {
      return fit(a) < fit(b);
    });
    if (best != lanes_.end()) {
      *lane = std::move(*best);
      lanes_.erase(best);
      return Result::success();
    }
  }
  auto made = std::make_unique<CudaLane>(*this);
  Result started = made->start();
  if (started.ok()) *lane = std::move(made);
  return started;
}

void CudaDevice::give(std::unique_ptr<CudaLane> lane) {
  std::lock_guard<std::mutex> lock(mutex_);
  lanes_.push_back(std::move(lane));
}

Result CudaDevice::function(CudaKernel kernel, CudaHandle* function) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!isLoaded_) {
    Result loaded = loadKernels();
    if (!loaded.ok()) return loaded;
    isLoaded_ = true;
  }
  *function = functions_[static_cast<size_t>(kernel)];
  return Result::success();
}

Result CudaDevice::loadKernels() {
  CudaHandle module = nullptr;
  Result result = api_->check(api_->moduleLoad(&module, kKernels), "moduleLoad");
  for (size_t i = 0; i < kCudaKernelCount && result.ok(); i++) {
    result = api_->check(api_->moduleFunction(&functions_[i], module, kKernelNames[i]),
                         "moduleFunction");
  }
  return result;
}

Result readCudaInfo(const std::string& library, CudaInfo* info) {
  std::shared_ptr<const CudaApi> api;
  Result result = loadCuda(library, &api);
  if (!result.ok()) return result;
  info->driver = api->driver;
  int count = 0;
  result = api->check(api->deviceCount(&count), "deviceCount");
  for (int ordinal = 0; ordinal < count && result.ok(); ordinal++) {
    int device = 0;
    char name[256] = {};
    char bus[32] = {};
    uint8_t uuid[16] = {};
    size_t bytes = 0;
    CudaDeviceInfo each;
    result = api->check(api->deviceGet(&device, ordinal), "deviceGet");
    if (!result.ok()) break;
    // What a driver doesn't say stays empty: this is for people.
    api->deviceName(name, sizeof name - 1, device);
    api->devicePciBusId(bus, sizeof bus - 1, device);
    if (api->deviceUuid(uuid, device) == cuda::kSuccess) each.uuid = uuidText(uuid);
    api->deviceMemory(&bytes, device);
    api->deviceAttribute(&each.computeMajor, cuda::kAttributeComputeMajor, device);
    api->deviceAttribute(&each.computeMinor, cuda::kAttributeComputeMinor, device);
    each.name = name;
    each.pciBusId = bus;
    each.memoryBytes = bytes;
    info->devices.push_back(std::move(each));
    for (int other = 0; other < count; other++) {
      if (other == ordinal) continue;
      CudaLinkInfo link;
      link.from = ordinal;
      link.to = other;
      int flag = 0;
      if (api->canAccessPeer(&flag, ordinal, other) == cuda::kSuccess) link.hasAccess = flag != 0;
      flag = 0;
      if (api->p2pAttribute(&flag, cuda::kP2pNativeAtomics, ordinal, other) == cuda::kSuccess) {
        link.hasNativeAtomics = flag != 0;
      }
      api->p2pAttribute(&link.performanceRank, cuda::kP2pPerformanceRank, ordinal, other);
      info->links.push_back(link);
    }
  }
  return result;
}

}  // namespace kvferry
