// The baseline of `kvferry-bench micro`: one NIXL agent driven by the plainest loop over the C API, on
// the thread that reads commands. One line in, one line out; the harness runs it as initiator and target.
//
//   bare_loop LIBRARY NAME REGION_BYTES BLOCK_BYTES   →  ready METADATA_HEX ADDRESS_HEX
//   serve                       target: fill with the pattern, poll until stdin ends
//   connect METADATA ADDRESS    load the peer, move one block for wire-up   →  ok
//   run BYTES DEPTH             READ as `DEPTH` transfers of `BYTES` each   →  ok NANOSECONDS
//   verify BLOCKS               even blocks below hold the pattern, the rest is untouched → ok
//   notify COUNT GAP_MS_MAX     WRITE one block + notification, COUNT times, gaps between → ok NS...
//
// Block k of a transfer is block 2k of both regions, so that no two descriptors can be merged.
#include <poll.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cinttypes>
#include <cstring>
#include <string>
#include <vector>

#include "nixl_table.h"

namespace {

constexpr int kDram = 0;
constexpr int kRead = 0;
constexpr int kWrite = 1;
constexpr int kInProgress = 1;
constexpr uint64_t kHugePageBytes = uint64_t{2} << 20;
constexpr uint8_t kUntouched = 0xA5;
constexpr uint64_t kWireUpDeadlineNs = 20'000'000'000;
constexpr uint32_t kPatternFactor = 0x9E3779B1;

uint64_t nowNs() {
  timespec time = {};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
}

void sleepNs(uint64_t ns) {
  const timespec time = {static_cast<time_t>(ns / 1'000'000'000),
                         static_cast<long>(ns % 1'000'000'000)};
  nanosleep(&time, nullptr);
}

/** Private, 2 MiB-aligned, on huge pages where the kernel has them: what the product uses. */
uint8_t* allocate(uint64_t bytes) {
  const uint64_t reserved = bytes + kHugePageBytes;
  void* memory = mmap(nullptr, reserved, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) die("no memory");
  const auto start = reinterpret_cast<uintptr_t>(memory);
  auto* aligned =
      reinterpret_cast<uint8_t*>((start + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes);
  madvise(aligned, bytes, MADV_HUGEPAGE);
  return aligned;
}

std::string toHex(const void* data, size_t bytes) {
  static const char digits[] = "0123456789abcdef";
  const auto* from = static_cast<const uint8_t*>(data);
  std::string hex;
  for (size_t i = 0; i < bytes; i++) {
    hex += digits[from[i] >> 4];
    hex += digits[from[i] & 15];
  }
  return hex;
}

std::string fromHex(const std::string& hex) {
  std::string data;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    data += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return data;
}

class BareLoop {
 public:
  BareLoop(const char* library, const char* name, uint64_t regionBytes, uint64_t blockBytes)
      : nixl_(loadTable(library)), memory_(allocate(regionBytes)), regionBytes_(regionBytes),
        blockBytes_(blockBytes) {
    std::memset(memory_, kUntouched, regionBytes);
    const AgentConfig config;
    check("create_configured_agent", nixl_.create_configured_agent(name, &config, &agent_));
    Handle params = nullptr;
    Handle backend = nullptr;
    check("create_params", nixl_.create_params(&params));
    check("create_backend", nixl_.create_backend(agent_, "UCX", params, &backend));
    check("create_notif_map", nixl_.create_notif_map(&notifications_));
    Handle list = nullptr;
    check("create_reg_dlist", nixl_.create_reg_dlist(kDram, &list));
    check("reg_dlist_add_desc",
          nixl_.reg_dlist_add_desc(list, reinterpret_cast<uintptr_t>(memory_), regionBytes, 0, nullptr, 0));
    check("register_mem", nixl_.register_mem(agent_, list, nullptr));
    void* metadata = nullptr;
    size_t metadataBytes = 0;
    check("get_local_md", nixl_.get_local_md(agent_, &metadata, &metadataBytes));
    std::printf("ready %s %" PRIxPTR "\n", toHex(metadata, metadataBytes).c_str(),
                reinterpret_cast<uintptr_t>(memory_));
    std::fflush(stdout);
  }

  void serve() {
    auto* words = reinterpret_cast<uint32_t*>(memory_);
    for (uint64_t i = 0; i < regionBytes_ / 4; i++) words[i] = static_cast<uint32_t>(i) * kPatternFactor;
    answer("ok");
    pollfd input = {STDIN_FILENO, POLLIN, 0};
    // As the product's agent does for targets: poll now and then, all the time.
    while (::poll(&input, 1, 0) == 0) {
      progress();
      sleepNs(100'000);
    }
  }

  void connect(const std::string& metadata, uintptr_t remote) {
    // Our agent puts a frame before the library's own metadata, which starts with this tag.
    const std::string framed = fromHex(metadata);
    const size_t start = framed.find("nixlSerDes");
    if (start == std::string::npos) die("no metadata of the library");
    const std::string blob = framed.substr(start);
    char* name = nullptr;
    check("load_remote_md", nixl_.load_remote_md(agent_, blob.data(), blob.size(), &name));
    peer_ = name;
    std::free(name);
    remote_ = remote;
    check("agent_make_connection", nixl_.agent_make_connection(agent_, peer_.c_str(), nullptr));
    const Handle request = create(kRead, 0, 1);
    finish(request, nixl_.post_xfer_req(agent_, request, nullptr));
    answer("ok");
  }

  void run(uint64_t bytes, uint64_t depth) {
    const uint64_t blocks = bytes / blockBytes_;
    std::vector<Handle> requests(depth);
    std::vector<int> statuses(depth);
    const uint64_t startedAt = nowNs();
    for (uint64_t i = 0; i < depth; i++) {
      requests[i] = create(kRead, i * blocks, blocks);
      statuses[i] = nixl_.post_xfer_req(agent_, requests[i], nullptr);
    }
    for (uint64_t i = 0; i < depth; i++) finish(requests[i], statuses[i]);
    std::printf("ok %" PRIu64 "\n", nowNs() - startedAt);
    std::fflush(stdout);
  }

  void verify(uint64_t blockCount) {
    const auto* words = reinterpret_cast<const uint32_t*>(memory_);
    const uint64_t wordsPerBlock = blockBytes_ / 4;
    for (uint64_t i = 0; i < regionBytes_ / 4; i++) {
      const uint64_t block = i / wordsPerBlock;
      const bool isMoved = block % 2 == 0 && block < 2 * blockCount;
      const uint32_t expected = isMoved ? static_cast<uint32_t>(i) * kPatternFactor : 0xA5A5A5A5;
      if (words[i] != expected) die("a byte is wrong in the block", static_cast<int>(block));
    }
    answer("ok");
  }

  void notify(uint64_t count, uint64_t gapMsMax) {
    std::string stamps = "ok";
    for (uint64_t i = 0; i < count; i++) {
      // Spread over the range, the same every time: short gaps meet a busy agent, long ones an idle one.
      sleepNs(1'000'000 * (1 + i * 7'919 % gapMsMax));
      Handle options = nullptr;
      check("create_opt_args", nixl_.create_opt_args(&options));
      check("opt_args_set_notif_msg", nixl_.opt_args_set_notif_msg(options, &i, sizeof i));
      check("opt_args_set_has_notif", nixl_.opt_args_set_has_notif(options, true));
      const Handle request = create(kWrite, 0, 1);
      finish(request, nixl_.post_xfer_req(agent_, request, options));
      stamps += ' ' + std::to_string(nowNs());
      nixl_.destroy_opt_args(options);
      progress();
    }
    answer(stamps.c_str());
  }

 private:
  Handle create(int operation, uint64_t firstBlock, uint64_t blocks) {
    Handle local = nullptr;
    Handle remote = nullptr;
    check("create_xfer_dlist", nixl_.create_xfer_dlist(kDram, &local));
    check("create_xfer_dlist", nixl_.create_xfer_dlist(kDram, &remote));
    const auto base = reinterpret_cast<uintptr_t>(memory_);
    for (uint64_t i = firstBlock; i < firstBlock + blocks; i++) {
      const uint64_t offset = 2 * i * blockBytes_;
      check("xfer_dlist_add_desc", nixl_.xfer_dlist_add_desc(local, base + offset, blockBytes_, 0));
      check("xfer_dlist_add_desc",
            nixl_.xfer_dlist_add_desc(remote, remote_ + offset, blockBytes_, 0));
    }
    Handle request = nullptr;
    check("create_xfer_req", nixl_.create_xfer_req(agent_, operation, local, remote, peer_.c_str(),
                                                   &request, nullptr));
    nixl_.destroy_xfer_dlist(local);
    nixl_.destroy_xfer_dlist(remote);
    return request;
  }

  void finish(Handle request, int status) {
    check("post_xfer_req", status);
    const uint64_t deadline = nowNs() + kWireUpDeadlineNs;
    while (status == kInProgress) {
      status = nixl_.get_xfer_status(agent_, request);
      check("get_xfer_status", status);
      if (status == kInProgress && nowNs() > deadline) die("a transfer has no final status");
    }
    nixl_.release_xfer_req(agent_, request);
    nixl_.destroy_xfer_req(request);
  }

  void progress() {
    check("get_notifs", nixl_.get_notifs(agent_, notifications_, nullptr));
    nixl_.notif_map_clear(notifications_);
  }

  void answer(const char* text) {
    std::puts(text);
    std::fflush(stdout);
  }

  const NixlTable nixl_;
  uint8_t* const memory_;
  const uint64_t regionBytes_;
  const uint64_t blockBytes_;
  Handle agent_ = nullptr;
  Handle notifications_ = nullptr;
  std::string peer_;
  uintptr_t remote_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) die("usage: bare_loop LIBRARY NAME REGION_BYTES BLOCK_BYTES");
  BareLoop loop(argv[1], argv[2], std::strtoull(argv[3], nullptr, 10),
                std::strtoull(argv[4], nullptr, 10));
  char* line = nullptr;
  size_t capacity = 0;
  while (getline(&line, &capacity, stdin) > 0) {
    std::vector<std::string> words;
    for (char* word = std::strtok(line, " \n"); word != nullptr; word = std::strtok(nullptr, " \n")) {
      words.emplace_back(word);
    }
    const auto number = [&words](size_t i) { return std::strtoull(words.at(i).c_str(), nullptr, 10); };
    if (words.empty()) continue;
    if (words[0] == "serve" && words.size() == 1) {
      loop.serve();
    } else if (words[0] == "connect" && words.size() == 3) {
      loop.connect(words[1], std::strtoull(words[2].c_str(), nullptr, 16));
    } else if (words[0] == "run" && words.size() == 3) {
      loop.run(number(1), number(2));
    } else if (words[0] == "verify" && words.size() == 2) {
      loop.verify(number(1));
    } else if (words[0] == "notify" && words.size() == 3) {
      loop.notify(number(1), number(2));
    } else {
      die("unknown command");
    }
  }
  std::free(line);
  // All is over and nothing is in flight; the kernel takes the rest down.
  std::_Exit(0);
}
