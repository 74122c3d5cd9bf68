// The CUDA driver API as a table of functions, filled by dlopen and never linked, so that the addon
// builds and loads on machines without a GPU and needs no toolkit anywhere. Declarations are ours.
// The driver stays loaded until the process ends. `loadCuda` may be called from any thread; the
// table is immutable afterwards.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "status.h"

namespace kvferry {

using CudaPointer = uint64_t;
using CudaHandle = void*;

/** Of memory, or of an event. Passed by value. */
struct CudaIpcHandle {
  uint8_t bytes[64];
};

struct CudaLocation {
  int32_t type;
  int32_t id;
};

struct CudaAllocationProperties {
  int32_t type;
  int32_t handleTypes;
  CudaLocation location;
  void* windowsMetadata;
  uint8_t flags[8];
};
static_assert(sizeof(CudaAllocationProperties) == 32);

struct CudaAccess {
  CudaLocation location;
  int32_t flags;
};
static_assert(sizeof(CudaAccess) == 12);

namespace cuda {

inline constexpr int kSuccess = 0;
inline constexpr int kOutOfMemory = 2;
inline constexpr int kNoDevice = 100;
inline constexpr int kNotReady = 600;
inline constexpr int kPeerAccessAlreadyEnabled = 704;
inline constexpr int kHostMemoryAlreadyRegistered = 712;

inline constexpr int kAttributeProcessorCount = 16;
inline constexpr int kAttributeHostPointersUsable = 91;
inline constexpr int kAttributeComputeMajor = 75;
inline constexpr int kAttributeComputeMinor = 76;
inline constexpr int kPointerIsLegacyIpcCapable = 10;
inline constexpr int kPointerDeviceOrdinal = 9;
inline constexpr int kP2pPerformanceRank = 1;
inline constexpr int kP2pAccessSupported = 2;
inline constexpr int kP2pNativeAtomics = 3;

inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventDisableTiming = 2;
inline constexpr unsigned kEventInterprocess = 4;
inline constexpr unsigned kHostRegisterPortable = 1;
inline constexpr unsigned kHostRegisterMapped = 2;
inline constexpr unsigned kIpcLazyPeerAccess = 1;

inline constexpr int kAllocationPinned = 1;
inline constexpr int kHandlePosixDescriptor = 1;
inline constexpr int kLocationDevice = 1;
inline constexpr int kAccessReadWrite = 3;
inline constexpr int kGranularityRecommended = 1;

}  // namespace cuda

// X(name, symbol, arguments): everything that we call. All return a status. Symbols with a version are
// those that the driver's own headers stand for.
#define KVFERRY_CUDA_FUNCTIONS(X)                                                                  \
  X(init, cuInit, (unsigned))                                                                      \
  X(driverVersion, cuDriverGetVersion, (int*))                                                     \
  X(errorName, cuGetErrorName, (int, const char**))                                                \
  X(deviceCount, cuDeviceGetCount, (int*))                                                         \
  X(deviceGet, cuDeviceGet, (int*, int))                                                           \
  X(deviceName, cuDeviceGetName, (char*, int, int))                                                \
  X(deviceUuid, cuDeviceGetUuid_v2, (uint8_t*, int))                                               \
  X(devicePciBusId, cuDeviceGetPCIBusId, (char*, int, int))                                        \
  X(deviceMemory, cuDeviceTotalMem_v2, (size_t*, int))                                             \
  X(deviceAttribute, cuDeviceGetAttribute, (int*, int, int))                                       \
  X(canAccessPeer, cuDeviceCanAccessPeer, (int*, int, int))                                        \
  X(p2pAttribute, cuDeviceGetP2PAttribute, (int*, int, int, int))                                  \
  X(contextRetain, cuDevicePrimaryCtxRetain, (CudaHandle*, int))                                   \
  X(contextSet, cuCtxSetCurrent, (CudaHandle))                                                     \
  X(contextEnablePeer, cuCtxEnablePeerAccess, (CudaHandle, unsigned))                              \
  X(memoryAllocate, cuMemAlloc_v2, (CudaPointer*, size_t))                                         \
  X(memoryFree, cuMemFree_v2, (CudaPointer))                                                       \
  X(memorySet, cuMemsetD8Async, (CudaPointer, unsigned char, size_t, CudaHandle))                  \
  X(memoryRange, cuMemGetAddressRange_v2, (CudaPointer*, size_t*, CudaPointer))                    \
  X(pointerAttribute, cuPointerGetAttribute, (void*, int, CudaPointer))                            \
  X(hostAllocate, cuMemHostAlloc, (void**, size_t, unsigned))                                      \
  X(hostFree, cuMemFreeHost, (void*))                                                              \
  X(hostRegister, cuMemHostRegister_v2, (void*, size_t, unsigned))                                 \
  X(hostUnregister, cuMemHostUnregister, (void*))                                                  \
  X(copyAsync, cuMemcpyAsync, (CudaPointer, CudaPointer, size_t, CudaHandle))                      \
  X(streamCreate, cuStreamCreate, (CudaHandle*, unsigned))                                         \
  X(streamSynchronize, cuStreamSynchronize, (CudaHandle))                                          \
  X(streamWait, cuStreamWaitEvent, (CudaHandle, CudaHandle, unsigned))                             \
  X(eventCreate, cuEventCreate, (CudaHandle*, unsigned))                                           \
  X(eventRecord, cuEventRecord, (CudaHandle, CudaHandle))                                          \
  X(eventQuery, cuEventQuery, (CudaHandle))                                                        \
  X(eventDestroy, cuEventDestroy_v2, (CudaHandle))                                                 \
  X(eventExport, cuIpcGetEventHandle, (CudaIpcHandle*, CudaHandle))                                \
  X(eventOpen, cuIpcOpenEventHandle, (CudaHandle*, CudaIpcHandle))                                 \
  X(ipcExport, cuIpcGetMemHandle, (CudaIpcHandle*, CudaPointer))                                   \
  X(ipcOpen, cuIpcOpenMemHandle_v2, (CudaPointer*, CudaIpcHandle, unsigned))                       \
  X(ipcClose, cuIpcCloseMemHandle, (CudaPointer))                                                  \
  X(virtualGranularity, cuMemGetAllocationGranularity,                                             \
    (size_t*, const CudaAllocationProperties*, int))                                               \
  X(virtualCreate, cuMemCreate, (uint64_t*, size_t, const CudaAllocationProperties*, uint64_t))    \
  X(virtualRelease, cuMemRelease, (uint64_t))                                                      \
  X(virtualExport, cuMemExportToShareableHandle, (void*, uint64_t, int, uint64_t))                 \
  X(virtualImport, cuMemImportFromShareableHandle, (uint64_t*, void*, int))                        \
  X(virtualReserve, cuMemAddressReserve, (CudaPointer*, size_t, size_t, CudaPointer, uint64_t))    \
  X(virtualUnreserve, cuMemAddressFree, (CudaPointer, size_t))                                     \
  X(virtualMap, cuMemMap, (CudaPointer, size_t, size_t, uint64_t, uint64_t))                       \
  X(virtualUnmap, cuMemUnmap, (CudaPointer, size_t))                                               \
  X(virtualAccess, cuMemSetAccess, (CudaPointer, size_t, const CudaAccess*, size_t))               \
  X(moduleLoad, cuModuleLoadData, (CudaHandle*, const void*))                                      \
  X(moduleFunction, cuModuleGetFunction, (CudaHandle*, CudaHandle, const char*))                   \
  X(launch, cuLaunchKernel,                                                                        \
    (CudaHandle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CudaHandle, \
     void**, void**))

struct CudaApi {
#define KVFERRY_DECLARE(name, symbol, arguments) int(*name) arguments = nullptr;
  KVFERRY_CUDA_FUNCTIONS(KVFERRY_DECLARE)
#undef KVFERRY_DECLARE
  /** As it was asked for: a name that the loader searches, or a path. */
  std::string library;
  int driver = 0;

  /** kCuda for anything but success; kLimit where the GPU has no memory left. */
  Result check(int status, const char* operation) const;
};

/**
 * Loads and initialises the driver; a second call with the same name answers the same table.
 * kCudaUnavailable: not loadable (the loader's message), a missing symbol (named), no GPU.
 */
Result loadCuda(const std::string& library, std::shared_ptr<const CudaApi>* api);

}  // namespace kvferry
