// Memory, kernel pool, loader, environment, metadata names.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <thread>

#include "../content_task.h"
#include "../environment.h"
#include "../kernel_pool.h"
#include "../kernels.h"
#include "../metadata_name.h"
#include "agent_fixture.h"

using namespace fixture;

namespace {

/** A directory that is gone at the end of the case. */
class TemporaryDirectory {
 public:
  TemporaryDirectory() { REQUIRE(mkdtemp(path_) != nullptr); }
  ~TemporaryDirectory() { rmdir(path_); }
  std::string path() const { return path_; }

 private:
  char path_[32] = "/tmp/kvferry-test-XXXXXX";
};

KernelJob fillJob(const std::shared_ptr<HostMemory>& memory) {
  KernelJob job;
  job.kind = KernelKind::kFill;
  job.blockTokens = 4;
  // Two regions with different slot sizes, the second with gaps.
  job.regions = {{memory, 0, 4 * 64, 4 * 64, 8}, {memory, 4'096, 4 * 16, 128, 8}};
  job.blockIds = {3, 0, 7};
  job.offsets = {1, 0, 3};
  job.seeds = {11, 22, 33};
  return job;
}

Result submit(KernelPool& pool, KernelJob job, uint64_t* ticket) {
  std::unique_ptr<KernelTask> task;
  Result made = makeContentTask(std::move(job), &task);
  return made.ok() ? pool.submit(std::move(task), ticket) : made;
}

std::vector<uint64_t> runJob(KernelPool& pool, TestSink& sink, KernelJob job) {
  uint64_t ticket = 0;
  REQUIRE(submit(pool, std::move(job), &ticket).ok());
  std::vector<KernelCompletion> done;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (done.empty()) {
    REQUIRE(sink.waitUntil(end));
    pool.drain(&done);
  }
  REQUIRE(done.size() == 1 && done[0].ticket == ticket);
  return done[0].digests;
}

std::vector<uint8_t> metadataOf(const std::string& name, size_t length) {
  std::string blob = "nixlSerDes|Agent";
  for (int i = 0; i < 8; i++) blob.push_back(static_cast<char>(length >> (8 * i)));
  blob += name + "|";
  return {blob.begin(), blob.end()};
}

}  // namespace

TEST("memory: aligned, zeroed, of the size asked for; refused when there is none") {
  std::shared_ptr<HostMemory> memory;
  REQUIRE(HostMemory::allocate((3 << 20) + 5, true, &memory).ok());
  CHECK_EQ(memory->address() % (2 << 20), 0u);
  CHECK_EQ(memory->sizeBytes(), uint64_t{(3 << 20) + 5});
  for (uint64_t i = 0; i < memory->sizeBytes(); i += 1'000) CHECK_EQ(memory->data()[i], 0u);
  memory->data()[memory->sizeBytes() - 1] = 1;
  CHECK(HostMemory::allocate(0, true, &memory).status == Status::kLimit);
  CHECK(HostMemory::allocate(uint64_t{1} << 50, true, &memory).status == Status::kLimit);
  CHECK(HostMemory::allocate(~uint64_t{0}, true, &memory).status == Status::kLimit);
}

TEST("memory: pinned memory isn't freed, freed memory isn't pinned") {
  const auto memory = allocate(4'096);
  MemoryPin first(memory);
  MemoryPin second(memory);
  CHECK(first && second);
  CHECK_EQ(memory->free().value, 2u);
  MemoryPin moved = std::move(first);
  CHECK_EQ(memory->pinCount(), 2u);
  moved = MemoryPin();
  second.reset();
  second.reset();
  CHECK_EQ(memory->pinCount(), 0u);
  CHECK(memory->free().ok());
  CHECK(memory->free().ok());
  CHECK(memory->isFreed());
  CHECK(!MemoryPin(memory));
}

TEST("kernel pool: fill, digest and expect agree, and only the slots are touched") {
  TestSink sink;
  const auto pool = KernelPool::create(2, sink);
  const auto memory = allocate(8'192);
  std::memset(memory->data(), 0xEE, 8'192);
  const auto filled = runJob(*pool, sink, fillJob(memory));
  KernelJob digest = fillJob(memory);
  digest.kind = KernelKind::kDigest;
  digest.seeds.clear();
  CHECK(runJob(*pool, sink, digest) == filled);
  KernelJob expected = fillJob(nullptr);
  expected.kind = KernelKind::kExpect;
  expected.blockIds.clear();
  expected.offsets.clear();
  CHECK(runJob(*pool, sink, expected) == filled);
  uint64_t touched = 0;
  for (uint64_t i = 0; i < 8'192; i++) touched += memory->data()[i] != 0xEE ? 1 : 0;
  CHECK(touched > 3 * 80 * 9 / 10 && touched <= 3 * 80);
  // Slot 1 of block 3 in region 0.
  uint64_t word = 0;
  std::memcpy(&word, memory->data() + 3 * 256 + 64, 8);
  CHECK_EQ(word, kernels::splitmix64(kernels::splitmix64(11 ^ 0xD6E8FEB86659FD93)));
  CHECK_EQ(memory->pinCount(), 0u);
}

TEST("kernel pool: a job of many batches over several threads equals slot by slot") {
  TestSink sink;
  const auto pool = KernelPool::create(3, sink);
  const auto memory = allocate(4 << 20);
  KernelJob job;
  job.kind = KernelKind::kFill;
  job.blockTokens = 16;
  job.regions = {{memory, 0, 16 * 512, 16 * 512, 256}, {memory, 2 << 20, 16 * 512, 16 * 512, 256}};
  for (uint32_t i = 0; i < 4'096; i++) {
    job.blockIds.push_back((i * 37 % 4'096) / 16);
    job.offsets.push_back((i * 37 % 4'096) % 16);
    job.seeds.push_back(i * 3 + 1);
  }
  const KernelJob same = job;
  const auto digests = runJob(*pool, sink, std::move(job));
  REQUIRE(digests.size() == 4'096);
  for (size_t i = 0; i < 4'096; i += 61) {
    uint64_t sum = 0;
    for (uint64_t r = 0; r < 2; r++) {
      const uint8_t* slot =
          memory->data() + r * (2 << 20) + same.blockIds[i] * 8'192 + same.offsets[i] * 512;
      kernels::digestSlots(&slot, 1, r, 64, &sum);
    }
    CHECK_EQ(digests[i], sum);
  }
}

TEST("kernel pool: what is wrong is refused, and nothing stays pinned") {
  TestSink sink;
  const auto pool = KernelPool::create(1, sink);
  const auto memory = allocate(8'192);
  const auto statusOf = [&](const std::function<void(KernelJob&)>& change) {
    KernelJob job = fillJob(memory);
    change(job);
    uint64_t ticket = 0;
    return submit(*pool, std::move(job), &ticket).status;
  };
  const Status bad = Status::kOutOfRange;
  CHECK(statusOf([](KernelJob& job) { job.blockTokens = 0; }) == bad);
  CHECK(statusOf([](KernelJob& job) { job.blockTokens = 5; }) == bad);
  CHECK(statusOf([](KernelJob& job) { job.regions.clear(); }) == bad);
  CHECK(statusOf([](KernelJob& job) { job.regions[0].blockSizeBytes = 4 * 12; }) == bad);
  CHECK(statusOf([](KernelJob& job) { job.regions[0].blockSizeBytes = 0; }) == bad);
  CHECK(statusOf([](KernelJob& job) { job.regions[1].blockStrideBytes = 63; }) == bad);
  CHECK(statusOf([](KernelJob& job) { job.regions[0].blockCount = 33; }) == bad);
  CHECK(statusOf([](KernelJob& job) { job.regions[0].offsetBytes = ~uint64_t{0}; }) == bad);
  CHECK(statusOf([](KernelJob& job) { job.regions[0].blockStrideBytes = ~uint64_t{0} / 2; }) ==
        bad);
  CHECK(statusOf([](KernelJob& job) { job.blockIds[1] = 8; }) == bad);
  CHECK(statusOf([](KernelJob& job) { job.offsets[1] = 4; }) == bad);
  CHECK(statusOf([](KernelJob& job) { job.offsets.pop_back(); }) == bad);
  CHECK(statusOf([](KernelJob& job) { job.seeds.pop_back(); }) == bad);
  CHECK(statusOf([](KernelJob& job) { job.regions[1].memory = nullptr; }) == bad);
  CHECK(statusOf([](KernelJob& job) {
          job.blockIds = {3, 0, 3};
          job.offsets = {1, 0, 1};
        }) == bad);
  CHECK_EQ(memory->pinCount(), 0u);
  REQUIRE(memory->free().ok());
  CHECK(statusOf([](KernelJob&) {}) == Status::kClosed);
}

TEST("kernel pool: an empty job completes, a pool that is shut down refuses") {
  TestSink sink;
  const auto pool = KernelPool::create(1, sink);
  KernelJob job = fillJob(allocate(8'192));
  job.blockIds.clear();
  job.offsets.clear();
  job.seeds.clear();
  const KernelJob same = job;
  CHECK(runJob(*pool, sink, std::move(job)).empty());
  pool->shutdownNow();
  pool->shutdownNow();
  uint64_t ticket = 0;
  CHECK(submit(*pool, same, &ticket).status == Status::kClosed);
}

TEST("loader: what can't be used is refused, with the reason") {
  std::shared_ptr<const NixlApi> api;
  CHECK(loadNixl("libfake_nixl_capi.so", &api).status == Status::kUnavailable);
  const Result missing = loadNixl("/nowhere/libnixl_capi.so", &api);
  CHECK(missing.status == Status::kUnavailable);
  CHECK(missing.detail.find("/nowhere/libnixl_capi.so") != std::string::npos);
  void* libc = dlopen("libm.so.6", RTLD_NOW);
  REQUIRE(libc != nullptr);
  char path[4'096] = "";
  REQUIRE(dlinfo(libc, RTLD_DI_ORIGIN, path) == 0);
  const Result foreign = loadNixl(std::string(path) + "/libm.so.6", &api);
  CHECK(foreign.status == Status::kUnavailable);
  CHECK(foreign.detail.find("nixl_capi_is_stub") != std::string::npos);
  dlclose(libc);
  CHECK(api == nullptr);
}

TEST("loader: a stub library is refused") {
  fakeApi();
  const TemporaryDirectory directory;
  const std::string link = directory.path() + "/libnixl_capi.so";
  REQUIRE(symlink(fakePath().c_str(), link.c_str()) == 0);
  setenv("KVFERRY_FAKE_NIXL_STUB", "1", 1);
  std::shared_ptr<const NixlApi> api;
  const Result stub = loadNixl(link, &api);
  unsetenv("KVFERRY_FAKE_NIXL_STUB");
  unlink(link.c_str());
  CHECK(stub.status == Status::kUnavailable);
  CHECK(stub.detail.find("stub") != std::string::npos);
}

TEST("metadata name: read from the blob, nothing from anything else") {
  const auto nameOf = [](const std::vector<uint8_t>& blob) {
    return agentNameOfMetadata(blob.data(), blob.size()).value_or("-");
  };
  CHECK_EQ(nameOf(metadataOf("p0", 2)), "p0");
  CHECK_EQ(nameOf(metadataOf("p0", 1)), "-");
  CHECK_EQ(nameOf(metadataOf("p0", 3)), "-");
  CHECK_EQ(nameOf(metadataOf("p0", ~size_t{0})), "-");
  CHECK_EQ(nameOf(metadataOf("", 0)), "-");
  CHECK_EQ(nameOf(metadataOf(std::string(257, 'x'), 257)), "-");
  CHECK_EQ(nameOf({}), "-");
  TestAgent agent("named");
  CHECK_EQ(nameOf(agent.metadata()), "named");
}

TEST("environment: the user's values win, then ours; names are checked") {
  setenv("UCX_NET_DEVICES", "eth9", 1);
  unsetenv("UCX_LOG_FILE");
  std::string log;
  EnvironmentOptions bad;
  bad.variables = {{"UCX TLS", "x"}};
  CHECK(applyEnvironment(bad, &log).status == Status::kOutOfRange);
  bad.variables = {{"UCX_TLS", std::string("a\0b", 3)}};
  CHECK(applyEnvironment(bad, &log).status == Status::kOutOfRange);
  EnvironmentOptions options;
  options.logFile = "/tmp/kvferry-test-ucx.log";
  options.variables = {{"UCX_NET_DEVICES", "eth1"}, {"UCX_PROTO_INFO", "n"}};
  REQUIRE(applyEnvironment(options, &log).ok());
  CHECK_EQ(log, options.logFile);
  CHECK_EQ(std::string(getenv("UCX_NET_DEVICES")), "eth9");
  CHECK_EQ(std::string(getenv("UCX_PROTO_INFO")), "n");
  CHECK_EQ(std::string(getenv("UCX_DEBUG_SIGNO")), "0");
  CHECK_EQ(std::string(getenv("UCX_HANDLE_ERRORS")), "none");
  CHECK_EQ(std::string(getenv("UCX_MEM_EVENTS")), "n");
  options.variables = {{"UCX_TLS", "tcp"}};
  options.logFile = "/tmp/other.log";
  REQUIRE(applyEnvironment(options, &log).ok());
  CHECK_EQ(log, "/tmp/kvferry-test-ucx.log");
  CHECK(getenv("UCX_TLS") == nullptr);
}

TEST("environment: new sockets get close-on-exec, older ones and files are left alone") {
  const auto isMarked = [](int descriptor) {
    return (fcntl(descriptor, F_GETFD) & FD_CLOEXEC) != 0;
  };
  const int before = socket(AF_UNIX, SOCK_STREAM, 0);
  DescriptorWatch watch;
  const int after = socket(AF_UNIX, SOCK_STREAM, 0);
  const int file = open("/proc/self/status", O_RDONLY);
  CHECK_EQ(watch.markNew(), 1);
  CHECK(!isMarked(before));
  CHECK(isMarked(after));
  CHECK(!isMarked(file));
  CHECK_EQ(watch.markNew(), 0);
  close(before);
  // The number of a known one comes back: it is new now.
  CHECK_EQ(watch.markNew(), 0);
  const int again = socket(AF_UNIX, SOCK_STREAM, 0);
  CHECK_EQ(again, before);
  CHECK_EQ(watch.markNew(), 1);
  for (const int each : {after, file, again}) close(each);
}
