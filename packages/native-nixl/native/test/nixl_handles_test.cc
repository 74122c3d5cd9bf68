#include "../nixl_handles.h"

#include "raw_agent.h"

using namespace fixture;

namespace {

NixlRegistrationList registered(RawAgent& agent, HostMemory& memory) {
  NixlHandle list = nullptr;
  REQUIRE(agent.api().create_reg_dlist(kNixlMemoryDram, &list) == 0);
  agent.api().reg_dlist_add_desc(list, memory.address(), memory.sizeBytes(), 0, nullptr, 0);
  REQUIRE(agent.api().register_mem(agent.handle(), list, nullptr) == 0);
  return {agent.api(), list};
}

NixlTransferList transferList(RawAgent& agent, HostMemory& memory) {
  NixlHandle list = nullptr;
  REQUIRE(agent.api().create_xfer_dlist(kNixlMemoryDram, &list) == 0);
  agent.api().xfer_dlist_add_desc(list, memory.address(), memory.sizeBytes(), 0);
  return {agent.api(), list};
}

}  // namespace

TEST("handles: an object is destroyed once, by its last owner") {
  const Fake& fake = freshFake();
  const auto api = fakeApi();
  const int64_t before = fake.count("live_options");
  {
    NixlHandle handle = nullptr;
    REQUIRE(api->create_opt_args(&handle) == 0);
    NixlOptions first(*api, handle);
    NixlOptions second = std::move(first);
    CHECK(!first && second);
    first = std::move(second);
    CHECK(first && !second);
    CHECK_EQ(fake.count("live_options"), before + 1);
    first.reset();
    first.reset();
    CHECK_EQ(fake.count("live_options"), before);
  }
  CHECK_EQ(fake.count("live_options"), before);
}

TEST("handles: a request without final status is never released, one with it is") {
  const Fake& fake = freshFake();
  const auto memoryA = allocate(4'096);
  const auto memoryB = allocate(4'096);
  RawAgent a("handles-a");
  RawAgent b("handles-b");
  const auto listA = registered(a, *memoryA);
  const auto listB = registered(b, *memoryB);
  void* blob = nullptr;
  size_t size = 0;
  REQUIRE(b.api().get_local_md(b.handle(), &blob, &size) == 0);
  a.load({static_cast<uint8_t*>(blob), static_cast<uint8_t*>(blob) + size});
  std::free(blob);
  const auto local = transferList(a, *memoryA);
  const auto remote = transferList(a, *memoryB);
  const int64_t before = fake.count("live_requests");
  const auto make = [&] {
    NixlHandle handle = nullptr;
    REQUIRE(a.api().create_xfer_req(a.handle(), kNixlRead, local.get(), remote.get(), "handles-b",
                                    &handle, nullptr) == 0);
    return TransferRequest(a.api(), a.handle(), handle);
  };
  {
    TransferRequest unposted = make();
    TransferRequest done = make();
    CHECK_EQ(done.post(nullptr), kNixlSuccess);
  }
  CHECK_EQ(fake.count("live_requests"), before);
  fake.set("never_complete", 1);
  {
    TransferRequest open = make();
    CHECK_EQ(open.post(nullptr), kNixlInProgress);
    open.release();
    CHECK_EQ(open.poll(), kNixlInProgress);
  }
  CHECK_EQ(fake.count("live_requests"), before + 1);
  CHECK_EQ(fake.count("copies_after_release"), 0);
}
