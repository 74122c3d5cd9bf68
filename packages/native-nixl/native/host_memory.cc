#include "host_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "cuda_device.h"
#include "limits.h"

namespace kvferry {
namespace {

constexpr uint64_t kAlignmentBytes = uint64_t{2} << 20;

/** Closes `descriptor`, if there is one. */
Result noMemory(uint64_t sizeBytes, int descriptor) {
  if (descriptor >= 0) close(descriptor);
  Result result = Result::overLimit("memorySizeBytes", sizeBytes, 0);
  result.detail = "the system has no memory of this size";
  return result;
}

Result badFile(std::string detail) {
  return Result::failure(Status::kMessageInvalid, "import", std::move(detail));
}

/** Whether the first `sizeBytes` of it can be mapped and stay there. */
Result checkFile(int descriptor, uint64_t sizeBytes) {
  struct stat status = {};
  // Seals exist for files in memory only. What else can be mapped would be written to a disk.
  const int seals = fcntl(descriptor, F_GET_SEALS);
  if (fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode) || seals < 0) {
    return badFile("it is no file in memory");
  }
  if ((fcntl(descriptor, F_GETFL) & O_ACCMODE) != O_RDWR) {
    return badFile("it isn't open for reading and writing");
  }
  if ((seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)) != 0) return badFile("it is write-sealed");
  // Before its size is read, so that it can't change in between. Refused where its maker sealed the
  // seals: then whoever made it must be trusted not to shrink it.
  if ((seals & F_SEAL_SHRINK) == 0) fcntl(descriptor, F_ADD_SEALS, F_SEAL_SHRINK);
  if (fstat(descriptor, &status) != 0 || static_cast<uint64_t>(status.st_size) < sizeBytes) {
    return badFile("it holds " + std::to_string(status.st_size) + " bytes, fewer than " +
                   std::to_string(sizeBytes));
  }
  return Result::success();
}

}  // namespace

Result HostMemory::map(int descriptor, uint64_t sizeBytes, bool isHuge,
                       std::shared_ptr<HostMemory>* memory) {
  const uint64_t mappedBytes = roundUp(sizeBytes, kAlignmentBytes);
  // One alignment unit more, so that an aligned range lies inside; the rest is given back at once.
  const uint64_t reservedBytes = mappedBytes + kAlignmentBytes;
  void* reserved =
      mmap(nullptr, reservedBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (reserved == MAP_FAILED) return noMemory(sizeBytes, descriptor);
  const auto start = reinterpret_cast<uintptr_t>(reserved);
  const uintptr_t aligned = roundUp(start, kAlignmentBytes);
  if (aligned > start) munmap(reserved, aligned - start);
  const uintptr_t end = start + reservedBytes;
  if (end > aligned + mappedBytes) {
    munmap(reinterpret_cast<void*>(aligned + mappedBytes), end - (aligned + mappedBytes));
  }
  auto* data = reinterpret_cast<uint8_t*>(aligned);
  // Only as far as the file goes: behind it stay private pages, which fault nobody.
  if (descriptor >= 0 && mmap(data, sizeBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                              descriptor, 0) == MAP_FAILED) {
    const int error = errno;
    munmap(data, mappedBytes);
    if (error == ENOMEM || error == EAGAIN) return noMemory(sizeBytes, descriptor);
    close(descriptor);
    return badFile(std::string("it can't be mapped: ") + std::strerror(error));
  }
  // Advice only: a kernel without huge pages answers an error, and small pages are right, just
  // slower.
  madvise(data, mappedBytes, isHuge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  memory->reset(new HostMemory(data, sizeBytes, mappedBytes, descriptor));
  return Result::success();
}

Result HostMemory::allocate(uint64_t sizeBytes, bool isHuge, std::shared_ptr<HostMemory>* memory) {
  Result checked = checkMemorySize(sizeBytes);
  return checked.ok() ? map(-1, sizeBytes, isHuge, memory) : checked;
}

Result HostMemory::allocateShared(uint64_t sizeBytes, bool isHuge,
                                  std::shared_ptr<HostMemory>* memory) {
  Result checked = checkMemorySize(sizeBytes);
  if (!checked.ok()) return checked;
  const int descriptor = memfd_create("kvferry-memory", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (descriptor < 0) return noMemory(sizeBytes, descriptor);
  if (ftruncate(descriptor, static_cast<off_t>(sizeBytes)) != 0 ||
      fcntl(descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return noMemory(sizeBytes, descriptor);
  }
  return map(descriptor, sizeBytes, isHuge, memory);
}

Result HostMemory::import(int descriptor, uint64_t sizeBytes, std::shared_ptr<HostMemory>* memory) {
  Result checked = checkMemorySize(sizeBytes);
  if (!checked.ok()) return checked;
  const int own = fcntl(descriptor, F_DUPFD_CLOEXEC, 3);
  if (own < 0 && errno == EBADF) return Result::outOfRange("import", "no open descriptor");
  if (own < 0) return Result::overLimit("descriptors", 1, 0);
  checked = checkFile(own, sizeBytes);
  if (!checked.ok()) {
    close(own);
    return checked;
  }
  return map(own, sizeBytes, true, memory);
}

HostMemory::~HostMemory() { releaseOnce(); }

void HostMemory::release() noexcept {
  if (lockedFor_ != nullptr) lockedFor_->unlockPages(data());
  munmap(data(), mappedBytes_);
  if (descriptor_ >= 0) close(descriptor_);
  descriptor_ = -1;
}

Result HostMemory::lockFor(const std::shared_ptr<CudaDevice>& device) {
  const MemoryPin pin(shared_from_this());
  if (!pin) return Result::failure(Status::kClosed, "lockFor", "the memory was freed");
  std::lock_guard<std::mutex> lock(mutex_);
  if (lockedFor_ == device) return Result::success();
  if (lockedFor_ != nullptr) return Result::busy("lockFor", 1, "it is locked for another GPU");
  Result locked = device->lockPages(data(), sizeBytes());
  if (locked.ok()) lockedFor_ = device;
  return locked;
}

CudaDevice* HostMemory::device() const noexcept {
  std::lock_guard<std::mutex> lock(mutex_);
  return lockedFor_.get();
}

int HostMemory::descriptor() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return descriptor_;
}

}  // namespace kvferry
