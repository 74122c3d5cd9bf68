// What the driver says about GPUs, as JS sees it.
#pragma once

#include "../cuda_device.h"
#include "napi_setup.h"

namespace kvferry {

/** `{ driver, devices: [{ name, uuid, … }], links: [{ from, to, hasAccess, … }] }`. */
inline Napi::Object cudaInfoValue(Napi::Env env, const CudaInfo& info) {
  Napi::Array devices = Napi::Array::New(env, info.devices.size());
  for (uint32_t i = 0; i < info.devices.size(); i++) {
    const CudaDeviceInfo& each = info.devices[i];
    Napi::Object device = Napi::Object::New(env);
    device.Set("name", each.name);
    device.Set("uuid", each.uuid);
    device.Set("pciBusId", each.pciBusId);
    device.Set("memoryBytes", static_cast<double>(each.memoryBytes));
    device.Set("computeMajor", each.computeMajor);
    device.Set("computeMinor", each.computeMinor);
    devices.Set(i, device);
  }
  Napi::Array links = Napi::Array::New(env, info.links.size());
  for (uint32_t i = 0; i < info.links.size(); i++) {
    const CudaLinkInfo& each = info.links[i];
    Napi::Object link = Napi::Object::New(env);
    link.Set("from", each.from);
    link.Set("to", each.to);
    link.Set("hasAccess", each.hasAccess);
    link.Set("hasNativeAtomics", each.hasNativeAtomics);
    link.Set("performanceRank", each.performanceRank);
    links.Set(i, link);
  }
  Napi::Object object = Napi::Object::New(env);
  object.Set("driver", info.driver);
  object.Set("devices", devices);
  object.Set("links", links);
  return object;
}

}  // namespace kvferry
