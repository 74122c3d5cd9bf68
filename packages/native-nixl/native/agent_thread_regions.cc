// The agent's thread: memory comes and goes. What the library was told of stays pinned until it has let go.
#include <utility>

#include "agent_thread.h"

namespace kvferry {

void AgentThread::execute(RegisterCommand& command) {
  Region& region = *command.region;
  Result result = isReady_ ? Result::success()
                            : Result::failure(Status::kBroken, "agent",
                                              "the agent did not start, or broke");
  NixlHandle list = nullptr;
  if (result.ok() && api().create_reg_dlist(nixlMemory(region.place), &list) != kNixlSuccess) {
    result = Result::nixlFailure("create_reg_dlist", kNixlBackend);
  }
  if (result.ok()) {
    region.list = NixlRegistrationList(api(), list);
    int status = api().reg_dlist_add_desc(list, region.address, region.lengthBytes,
                                          region.place.device, nullptr, 0);
    if (status == kNixlSuccess) status = api().register_mem(agent_.get(), list, nullptr);
    if (status != kNixlSuccess) result = Result::nixlFailure("register_mem", status);
  }
  if (!result.ok()) {
    region.list.reset();
    region.pin.reset();
  }
  // Slabs reach only what lies where they do.
  const bool areSlabsHere = store_ != nullptr && store_->facts().place == region.place;
  if (result.ok() && areSlabsHere) ranges_.add(region.address, region.lengthBytes);
  {
    std::lock_guard<std::mutex> lock(core_->mutex);
    if (result.ok()) {
      region.isRegistered = true;
    } else {
      core_->regions.erase(region.handle);
    }
  }
  complete(command.ticket, std::move(result), region.handle);
}

void AgentThread::execute(DeregisterCommand& command) {
  Region& region = *command.region;
  Result result = Result::success();
  ranges_.remove(region.address, region.lengthBytes);
  // A slab that was checked before may still be on its way there.
  if (lender_ != nullptr) lender_->settle();
  const int status = api().deregister_mem(agent_.get(), region.list.get(), nullptr);
  if (status != kNixlSuccess) result = Result::nixlFailure("deregister_mem", status);
  region.list.reset();
  // On failure the library may still use the pages: then they stay pinned for ever.
  if (result.ok()) region.pin.reset();
  if (result.ok()) {
    std::lock_guard<std::mutex> lock(core_->mutex);
    core_->regions.erase(region.handle);
  }
  complete(command.ticket, std::move(result));
}

}  // namespace kvferry
