// The baseline of `kvferry-bench micro`: one NIXL agent driven by the plainest loop over the C API, on
// the thread that reads commands. One line in, one line out; the harness runs it as initiator and target.
//
//   bare_loop LIBRARY NAME REGION_BYTES BLOCK_BYTES [GPU]   →  ready METADATA_HEX ADDRESS_HEX
//   serve                       target: fill with the pattern, poll until stdin ends
//   connect METADATA ADDRESS    load the peer, move one block for wire-up   →  ok
//   run BYTES DEPTH             READ as `DEPTH` transfers of `BYTES` each   →  ok NANOSECONDS
//   verify BLOCKS               even blocks below hold the pattern, the rest is untouched → ok
//   notify COUNT GAP_MS_MAX     WRITE one block + notification, COUNT times, gaps between → ok NS...
//
//   pattern SEED                word i of the region becomes (i + SEED) × factor   →  ok
//   watch                       target: poll until the next command   →  ok
//   move DIRECTION BLOCK_BYTES COUNT   one transfer of scattered blocks   →  ok NANOSECONDS
//   scattered SIDE BLOCK_BYTES COUNT SEED OTHER_SEED   after it: moved blocks hold the pattern of OTHER_SEED, the rest their own
//
// Block k of a transfer is block 2k of both regions, so that no two descriptors can be merged; those of `move` come in an order of
// their own on each side (`scatteredId`, the same as in gpus/blocks.ts).
#include <poll.h>
#include <unistd.h>

#include <cinttypes>
#include <cstring>
#include <string>
#include <vector>

#include "monotonic_clock.h"
#include "nixl_table.h"
#include "region.h"
#include "words.h"

namespace {

constexpr int kRead = 0;
constexpr int kWrite = 1;
constexpr int kInProgress = 1;
constexpr uint64_t kWireUpDeadlineNs = 20'000'000'000;
constexpr uint32_t kPatternFactor = 0x9E3779B1;
class BareLoop {
 public:
  /** `gpu`: its number; null: host memory. */
  BareLoop(const char* library, const char* name, uint64_t regionBytes, uint64_t blockBytes, const char* gpu)
      : nixl_(loadTable(library)), region_(regionBytes, gpu), blockBytes_(blockBytes) {
    const AgentConfig config;
    check("create_configured_agent", nixl_.create_configured_agent(name, &config, &agent_));
    Handle params = nullptr;
    Handle backend = nullptr;
    check("create_params", nixl_.create_params(&params));
    check("create_backend", nixl_.create_backend(agent_, "UCX", params, &backend));
    check("create_notif_map", nixl_.create_notif_map(&notifications_));
    Handle list = nullptr;
    check("create_reg_dlist", nixl_.create_reg_dlist(region_.kind(), &list));
    check("reg_dlist_add_desc",
          nixl_.reg_dlist_add_desc(list, region_.base(), regionBytes, region_.gpu(), nullptr, 0));
    check("register_mem", nixl_.register_mem(agent_, list, nullptr));
    void* metadata = nullptr;
    size_t metadataBytes = 0;
    check("get_local_md", nixl_.get_local_md(agent_, &metadata, &metadataBytes));
    std::printf("ready %s %" PRIxPTR "\n", toHex(metadata, metadataBytes).c_str(),
                region_.base());
    std::fflush(stdout);
  }

  void serve() {
    auto* words = reinterpret_cast<uint32_t*>(region_.data());
    for (uint64_t i = 0; i < region_.bytes() / 4; i++) words[i] = static_cast<uint32_t>(i) * kPatternFactor;
    watch();
  }

  void watch() {
    answer("ok");
    pollfd input = {STDIN_FILENO, POLLIN, 0};
    // As the product's agent does for targets: poll now and then, all the time.
    while (::poll(&input, 1, 0) == 0) {
      progress();
      sleepNs(100'000);
    }
  }

  void connect(const std::string& metadata, uintptr_t remote, uint64_t peerGpu) {
    peerGpu_ = peerGpu;
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
    const auto* words = reinterpret_cast<const uint32_t*>(region_.data());
    const uint64_t wordsPerBlock = blockBytes_ / 4;
    for (uint64_t i = 0; i < region_.bytes() / 4; i++) {
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

  void pattern(uint32_t seed) {
    region_.eachStage([&](uint64_t offset, uint32_t* words, uint64_t bytes) {
      for (uint64_t i = 0; i < bytes / 4; i++) words[i] = patternAt(offset / 4 + i, seed);
      region_.put(offset, words, bytes);
    });
    answer("ok");
  }

  void move(int operation, uint64_t blockBytes, uint64_t count) {
    const uint64_t startedAt = nowNs();
    const Handle request = createScattered(operation, blockBytes, count);
    finish(request, nixl_.post_xfer_req(agent_, request, nullptr));
    std::printf("ok %" PRIu64 "\n", nowNs() - startedAt);
    std::fflush(stdout);
  }

  /** `isRemote`: this side's ids are those of the remote side of the transfer. */
  void scattered(bool isRemote, uint64_t blockBytes, uint64_t count, uint32_t seed, uint32_t other) {
    std::vector<uint64_t> sources(region_.bytes() / blockBytes, UINT64_MAX);
    for (uint64_t i = 0; i < count; i++) {
      const uint64_t local = scatteredId(i, count, kLocalOrder);
      const uint64_t remote = scatteredId(i, count, kRemoteOrder);
      sources[isRemote ? remote : local] = isRemote ? local : remote;
    }
    region_.eachStage([&](uint64_t offset, uint32_t* words, uint64_t bytes) {
      region_.get(offset, words, bytes);
      for (uint64_t i = 0; i < bytes / 4; i++) {
        const uint64_t at = offset + 4 * i;
        const uint64_t source = sources[at / blockBytes];
        const uint32_t expected = source == UINT64_MAX
                                      ? patternAt(at / 4, seed)
                                      : patternAt((source * blockBytes + at % blockBytes) / 4, other);
        if (words[i] != expected) die("a byte is wrong in the block", static_cast<int>(at / blockBytes));
      }
    });
    answer("ok");
  }

 private:
  static uint32_t patternAt(uint64_t word, uint32_t seed) {
    return (static_cast<uint32_t>(word) + seed) * kPatternFactor;
  }

  Handle createScattered(int operation, uint64_t blockBytes, uint64_t count) {
    Handle local = nullptr;
    Handle remote = nullptr;
    check("create_xfer_dlist", nixl_.create_xfer_dlist(region_.kind(), &local));
    check("create_xfer_dlist", nixl_.create_xfer_dlist(region_.kind(), &remote));
    for (uint64_t i = 0; i < count; i++) {
      const uint64_t here = scatteredId(i, count, kLocalOrder) * blockBytes;
      const uint64_t there = scatteredId(i, count, kRemoteOrder) * blockBytes;
      check("xfer_dlist_add_desc", nixl_.xfer_dlist_add_desc(local, region_.base() + here, blockBytes, region_.gpu()));
      check("xfer_dlist_add_desc", nixl_.xfer_dlist_add_desc(remote, remote_ + there, blockBytes, peerGpu_));
    }
    return createRequest(operation, local, remote);
  }

  Handle create(int operation, uint64_t firstBlock, uint64_t blocks) {
    Handle local = nullptr;
    Handle remote = nullptr;
    check("create_xfer_dlist", nixl_.create_xfer_dlist(region_.kind(), &local));
    check("create_xfer_dlist", nixl_.create_xfer_dlist(region_.kind(), &remote));
    for (uint64_t i = firstBlock; i < firstBlock + blocks; i++) {
      const uint64_t offset = 2 * i * blockBytes_;
      check("xfer_dlist_add_desc", nixl_.xfer_dlist_add_desc(local, region_.base() + offset, blockBytes_, region_.gpu()));
      check("xfer_dlist_add_desc",
            nixl_.xfer_dlist_add_desc(remote, remote_ + offset, blockBytes_, peerGpu_));
    }
    return createRequest(operation, local, remote);
  }

  /** Takes the lists over. */
  Handle createRequest(int operation, Handle local, Handle remote) {
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
  Region region_;
  const uint64_t blockBytes_;
  Handle agent_ = nullptr;
  Handle notifications_ = nullptr;
  std::string peer_;
  uintptr_t remote_ = 0;
  uint64_t peerGpu_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5 && argc != 6) die("usage: bare_loop LIBRARY NAME REGION_BYTES BLOCK_BYTES [GPU]");
  BareLoop loop(argv[1], argv[2], std::strtoull(argv[3], nullptr, 10),
                std::strtoull(argv[4], nullptr, 10), argc == 6 ? argv[5] : nullptr);
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
    } else if (words[0] == "connect" && (words.size() == 3 || words.size() == 4)) {
      loop.connect(words[1], std::strtoull(words[2].c_str(), nullptr, 16), words.size() == 4 ? number(3) : 0);
    } else if (words[0] == "run" && words.size() == 3) {
      loop.run(number(1), number(2));
    } else if (words[0] == "verify" && words.size() == 2) {
      loop.verify(number(1));
    } else if (words[0] == "pattern" && words.size() == 2) {
      loop.pattern(static_cast<uint32_t>(number(1)));
    } else if (words[0] == "watch" && words.size() == 1) {
      loop.watch();
    } else if (words[0] == "move" && words.size() == 4) {
      loop.move(words[1] == "write" ? kWrite : kRead, number(2), number(3));
    } else if (words[0] == "scattered" && words.size() == 6) {
      loop.scattered(words[1] == "remote", number(2), number(3), static_cast<uint32_t>(number(4)),
                     static_cast<uint32_t>(number(5)));
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
