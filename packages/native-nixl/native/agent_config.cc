// What an agent may be made of.
#include "agent_core.h"

namespace kvferry {

Result checkConfig(const AgentConfig& config) {
  const bool isNameUsable = !config.name.empty() && config.name.size() <= limits::kIdSizeBytesMax &&
                            config.name.find('\0') == std::string::npos;
  if (!isNameUsable) {
    return Result::outOfRange("agent", "the name must have 1 to 256 bytes, none zero");
  }
  const SlabConfig& slabs = config.slabs;
  const bool areSlabsUsable =
      slabs.slabCount == 0 ||
      (slabs.slabCount <= limits::kSlabCountMax && slabs.slabBytes % 8 == 0 &&
       slabs.slabBytes >= limits::kSlabSizeBytesMin && slabs.slabBytes <= limits::kSlabSizeBytesMax);
  if (!areSlabsUsable) return Result::outOfRange("agent", "number or size of the slabs");
  const IpcConfig& ipc = config.ipc;
  if (ipc.isOn && (config.device == nullptr || ipc.ctaCount > limits::kIpcCtaCountMax)) {
    return Result::outOfRange("agent", "the path ipc needs a GPU, and at most 1024 CTAs of it");
  }
  if (config.api == nullptr) return Result::failure(Status::kUnavailable, "agent", "no library");
  return Result::success();
}

}  // namespace kvferry
