#include "agent_fixture.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>

namespace fixture {

using Clock = std::chrono::steady_clock;

std::string fakePath() {
  char path[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path);
  std::string all(path, length > 0 ? static_cast<size_t>(length) : 0);
  return all.substr(0, all.rfind('/')) + "/libfake_nixl_capi.so";
}

std::shared_ptr<const NixlApi> fakeApi() {
  std::shared_ptr<const NixlApi> api;
  REQUIRE(loadNixl(fakePath(), &api).ok());
  return api;
}

const Fake& freshFake() {
  static const Fake fake = [] {
    fakeApi();
    void* library = dlopen(fakePath().c_str(), RTLD_NOW | RTLD_LOCAL);
    Fake made{};
    made.set = reinterpret_cast<decltype(made.set)>(dlsym(library, "fake_nixl_set"));
    made.count = reinterpret_cast<decltype(made.count)>(dlsym(library, "fake_nixl_count"));
    made.reset = reinterpret_cast<decltype(made.reset)>(dlsym(library, "fake_nixl_reset"));
    return made;
  }();
  fake.reset();
  return fake;
}

void TestSink::notify() noexcept {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    total_ += 1;
  }
  condition_.notify_all();
}

bool TestSink::waitUntil(Clock::time_point end) {
  std::unique_lock<std::mutex> lock(mutex_);
  const bool isTold = condition_.wait_until(lock, end, [this] { return total_ != seen_; });
  seen_ = total_;
  return isTold;
}

uint64_t TestSink::total() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return total_;
}

TestAgent::TestAgent(const std::string& name, SlabConfig slabs, std::vector<std::string> backends) {
  Ticket ticket = 0;
  AgentConfig config{name, fakeApi(), std::move(backends), slabs, nullptr};
  REQUIRE(Agent::create(std::move(config), sink, &agent_, &ticket).ok());
  ready = await(ticket);
}

bool TestAgent::waitFor(const std::function<bool()>& condition, uint64_t ms) {
  const auto end = Clock::now() + std::chrono::milliseconds(ms);
  for (;;) {
    drain();
    if (condition()) return true;
    if (Clock::now() >= end) return false;
    // The condition may also hang on counters, which tell nobody: look again after a moment.
    sink.waitUntil(std::min(end, Clock::now() + std::chrono::milliseconds(1)));
  }
}

CommandCompletion TestAgent::await(Ticket ticket) {
  CommandCompletion found;
  REQUIRE(waitFor([&] {
    for (const CommandCompletion& each : events.commands) {
      if (each.ticket != ticket) continue;
      found = each;
      return true;
    }
    return false;
  }));
  return found;
}

TransferCompletion TestAgent::awaitFinal(uint64_t transfer) {
  TransferCompletion found;
  REQUIRE(waitFor([&] {
    for (const TransferCompletion& each : events.transfers) {
      if (each.handle != transfer || each.outcome == TransferOutcome::kOverdue) continue;
      found = each;
      return true;
    }
    return false;
  }));
  return found;
}

TransferCompletion TestAgent::awaitOverdue(uint64_t transfer) {
  TransferCompletion found;
  REQUIRE(waitFor([&] {
    for (const TransferCompletion& each : events.transfers) {
      if (each.handle != transfer || each.outcome != TransferOutcome::kOverdue) continue;
      found = each;
      return true;
    }
    return false;
  }));
  return found;
}

NotificationMessage TestAgent::awaitNotification() {
  REQUIRE(waitFor([&] { return !events.notifications.empty(); }));
  NotificationMessage first = events.notifications.front();
  events.notifications.erase(events.notifications.begin());
  return first;
}

size_t TestAgent::completionCount(uint64_t transfer) const {
  size_t count = 0;
  for (const TransferCompletion& each : events.transfers) count += each.handle == transfer ? 1 : 0;
  return count;
}

uint64_t TestAgent::registerRegion(const std::shared_ptr<HostMemory>& memory, uint64_t offset,
                                   uint64_t length) {
  Ticket ticket = 0;
  REQUIRE(agent_->registerRegion(memory, offset, length, &ticket).ok());
  const CommandCompletion done = await(ticket);
  REQUIRE(done.result.ok());
  return done.handle;
}

std::vector<uint8_t> TestAgent::metadata() {
  Ticket ticket = 0;
  REQUIRE(agent_->localMetadata(&ticket).ok());
  const CommandCompletion done = await(ticket);
  REQUIRE(done.result.ok());
  return done.bytes;
}

uint64_t TestAgent::addPeer(TestAgent& peer) {
  const std::vector<uint8_t> blob = peer.metadata();
  Ticket ticket = 0;
  REQUIRE(agent_->addPeer(blob.data(), blob.size(), peer->name(), &ticket).ok());
  const CommandCompletion done = await(ticket);
  REQUIRE(done.result.ok());
  return done.handle;
}

CommandCompletion TestAgent::close(uint64_t deadlineMs) {
  Ticket ticket = 0;
  REQUIRE(agent_->close(deadlineMs, &ticket).ok());
  return await(ticket);
}

std::shared_ptr<HostMemory> allocate(uint64_t bytes) {
  std::shared_ptr<HostMemory> memory;
  REQUIRE(HostMemory::allocate(bytes, false, &memory).ok());
  return memory;
}

uint64_t table(TestAgent& agent, uint64_t region, uint64_t regions, uint64_t blockBytes,
               uint64_t blocks) {
  std::vector<BlockRegionSpec> specs;
  for (uint64_t i = 0; i < regions; i++) {
    specs.push_back({region, i * blockBytes * blocks, blockBytes, blockBytes, blocks});
  }
  uint64_t handle = 0;
  REQUIRE(agent->declareBlockTable(specs, &handle).ok());
  return handle;
}

Pair::Pair(const std::string& prefix, SlabConfig slabsOfA, SlabConfig slabsOfB,
           const std::vector<std::string>& backendsOfA, const std::vector<std::string>& backendsOfB)
    : a(prefix + "-a", slabsOfA, backendsOfA), b(prefix + "-b", slabsOfB, backendsOfB) {
  regionA = a.registerRegion(memoryA, 0, kBytes);
  regionB = b.registerRegion(memoryB, 0, kBytes);
  tableA = table(a, regionA, 2, kBlockBytes, kBlocks);
  tableB = table(b, regionB, 2, kBlockBytes, kBlocks);
  peer = a.addPeer(b);
  std::vector<uint8_t> exported;
  REQUIRE(b->exportBlockTable(tableB, &exported).ok());
  REQUIRE(a->importBlockTable(peer, exported.data(), exported.size(), &remoteTable).ok());
  for (uint64_t i = 0; i < kBytes; i++) {
    memoryA->data()[i] = static_cast<uint8_t>(i / kBlockBytes);
    memoryB->data()[i] = static_cast<uint8_t>(128 + i / kBlockBytes);
  }
}

uint8_t* Pair::blockA(uint64_t region, uint64_t block) const {
  return memoryA->data() + (region * kBlocks + block) * kBlockBytes;
}
uint8_t* Pair::blockB(uint64_t region, uint64_t block) const {
  return memoryB->data() + (region * kBlocks + block) * kBlockBytes;
}

bool isAll(const uint8_t* block, uint64_t value) {
  return std::all_of(block, block + Pair::kBlockBytes,
                     [&](uint8_t each) { return each == static_cast<uint8_t>(value); });
}

Post::Post(const Pair& pair, Direction direction, std::vector<uint32_t> localIds,
           std::vector<uint32_t> remoteIds)
    : local(std::move(localIds)), remote(std::move(remoteIds)) {
  fields.direction = direction;
  fields.peer = pair.peer;
  fields.local.table = pair.tableA;
  fields.remote.table = pair.remoteTable;
}

Post& Post::after(uint64_t fence) {
  fields.hasFence = true;
  fields.fence = fence;
  return *this;
}
Post& Post::deadline(uint64_t ms) {
  fields.deadlineMs = ms;
  return *this;
}
Post& Post::bySlabs() {
  fields.path = Path::kSlabs;
  return *this;
}
Post& Post::notification(const std::string& text) {
  message = text;
  fields.hasNotification = true;
  return *this;
}

PostView Post::view() const {
  PostView made = fields;
  made.local.count = local.size();
  made.local.blockIds = local.data();
  made.remote.count = remote.size();
  made.remote.blockIds = remote.data();
  made.notification = reinterpret_cast<const uint8_t*>(message.data());
  made.notificationSizeBytes = message.size();
  return made;
}

Result Post::to(TestAgent& agent, uint64_t* handle, bool isWaiting) const {
  const PostView made = view();
  return agent->postAll(&made, 1, isWaiting, handle);
}

uint64_t Post::mustTo(TestAgent& agent, bool isWaiting) const {
  uint64_t handle = 0;
  REQUIRE(to(agent, &handle, isWaiting).ok());
  return handle;
}

}  // namespace fixture
