// Agents, copies and notifications of the fake: within a process by memcpy and by hand, between
// processes by process_vm_readv/writev and datagrams on abstract sockets.
#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>

#include "fake_state.h"

namespace fakenixl {
namespace {

constexpr uint64_t kWordsCopyBytesMax = 4'096;

struct Network {
  std::vector<std::shared_ptr<Agent>> agents;
  std::vector<std::shared_ptr<Copy>> copies;
  std::condition_variable wake;
  bool hasThread = false;
};

/** Never destroyed, like everything that the progress thread uses. */
Network& network() {
  static auto* all = new Network;
  return *all;
}

/** The address of an agent's socket: abstract, so that nothing is left behind on disk. */
socklen_t socketAddress(pid_t pid, uint64_t incarnation, sockaddr_un* address) {
  *address = {};
  address->sun_family = AF_UNIX;
  const std::string name =
      "kvferry-fake-nixl-" + std::to_string(pid) + "-" + std::to_string(incarnation);
  std::memcpy(address->sun_path + 1, name.data(), name.size());
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
}

/**
 * Loads whole words at once where it can: a reader of words that their owner changes meanwhile sees old
 * ones and new ones, as through the real library, and the sanitizer doesn't call that a race.
 */
void moveWithin(const uint8_t* from, uint8_t* to, uint64_t bytes) {
  const bool isWhole = reinterpret_cast<uint64_t>(from) % 8 == 0 && bytes % 8 == 0;
  if (!isWhole || bytes > kWordsCopyBytesMax) {
    std::memmove(to, from, bytes);
    return;
  }
  for (uint64_t at = 0; at < bytes; at += 8) {
    const uint64_t word = __atomic_load_n(reinterpret_cast<const uint64_t*>(from + at), __ATOMIC_ACQUIRE);
    std::memcpy(to + at, &word, sizeof word);
  }
}

/** One piece; false: the peer's process or memory is gone. */
bool movePiece(const Copy& copy, const Piece& piece) {
  auto* local = reinterpret_cast<uint8_t*>(piece.local);
  auto* remote = reinterpret_cast<uint8_t*>(piece.remote);
  if (copy.remote->pid == getpid()) {
    moveWithin(copy.isRead ? remote : local, copy.isRead ? local : remote, piece.bytes);
    return true;
  }
  for (uint64_t done = 0; done < piece.bytes;) {
    const iovec here{local + done, piece.bytes - done};
    const iovec there{remote + done, piece.bytes - done};
    const ssize_t moved = copy.isRead ? process_vm_readv(copy.remote->pid, &here, 1, &there, 1, 0)
                                      : process_vm_writev(copy.remote->pid, &here, 1, &there, 1, 0);
    if (moved <= 0) return false;
    done += static_cast<uint64_t>(moved);
  }
  return true;
}

/** Ends a copy: the rest of the bytes, then the notification. */
void complete(Copy& copy) {
  const auto agent = copy.agent.lock();
  const bool isMoved = agent != nullptr && isAlive(*copy.remote) && performCopy(copy);
  copy.status = isMoved ? kSuccess : kBackend;
  const bool isTold = isMoved && copy.hasNotification && !takeKnob("drop_transfer_notifications");
  if (isTold) deliver(agent, *copy.remote, copy.notification);
}

bool isHeldBack(Copy& copy) {
  if (copy.isNeverEnding || copy.pollsLeft > 0) return true;
  if (!copy.isWaitingForTarget) return false;
  const auto target = findAgent(copy.remote->name, copy.remote->incarnation);
  return target != nullptr && target->polls <= copy.targetPollsBefore;
}

void runProgress() {
  Network& all = network();
  std::unique_lock<std::mutex> lock(mutex());
  for (;;) {
    const Clock::time_point now = Clock::now();
    Clock::time_point next = now + std::chrono::milliseconds(1);
    for (const auto& copy : all.copies) {
      const bool isTargetGone = copy->status == kInProgress && !isAlive(*copy->remote);
      if (isTargetGone && !copy->isNeverEnding) copy->status = kBackend;
      if (copy->status != kInProgress || isHeldBack(*copy)) continue;
      if (copy->due <= now) {
        complete(*copy);
      } else {
        next = std::min(next, copy->due);
      }
    }
    all.copies.erase(std::remove_if(all.copies.begin(), all.copies.end(),
                                    [](const auto& copy) { return copy->status != kInProgress; }),
                     all.copies.end());
    if (all.copies.empty()) {
      all.wake.wait(lock);
    } else {
      all.wake.wait_until(lock, next);
    }
  }
}

}  // namespace

std::shared_ptr<Agent> findAgent(const std::string& name, uint64_t incarnation) {
  for (const auto& agent : network().agents) {
    if (agent->name == name && agent->incarnation == incarnation) return agent;
  }
  return nullptr;
}

void addAgent(const std::shared_ptr<Agent>& agent) {
  sockaddr_un address;
  const socklen_t length = socketAddress(getpid(), agent->incarnation, &address);
  agent->socket = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (bind(agent->socket, reinterpret_cast<sockaddr*>(&address), length) != 0) {
    die("can't bind the socket of " + agent->name);
  }
  network().agents.push_back(agent);
}

void removeAgent(const std::shared_ptr<Agent>& agent) {
  close(agent->socket);
  agent->socket = -1;
  auto& agents = network().agents;
  agents.erase(std::remove(agents.begin(), agents.end(), agent), agents.end());
  // As with the real one, nothing of a destroyed agent writes any more.
  for (const auto& copy : network().copies) {
    if (copy->agent.lock() == agent) copy->status = kBackend;
  }
}

bool isAlive(const Remote& remote) {
  if (remote.pid == getpid()) return findAgent(remote.name, remote.incarnation) != nullptr;
  return kill(remote.pid, 0) == 0;
}

bool performCopy(Copy& copy) {
  for (; copy.nextPiece < copy.pieces.size(); copy.nextPiece++) {
    if (!movePiece(copy, copy.pieces[copy.nextPiece])) return false;
  }
  count("copies");
  return true;
}

void deliver(const std::shared_ptr<Agent>& from, const Remote& to, const std::string& message) {
  if (takeKnob("drop_notifications")) return;
  if (to.pid == getpid()) {
    if (const auto target = findAgent(to.name, to.incarnation)) {
      target->inbox.push_back({from->name, message});
    }
    return;
  }
  sockaddr_un address;
  const socklen_t length = socketAddress(to.pid, to.incarnation, &address);
  const std::string packet = from->name + '\0' + message;
  const std::string path(reinterpret_cast<const char*>(&address), length);
  from->outbox.emplace_back(path, packet);
  exchange(from);
}

void exchange(const std::shared_ptr<Agent>& agent) {
  while (!agent->outbox.empty()) {
    const auto& [path, packet] = agent->outbox.front();
    const ssize_t sent =
        sendto(agent->socket, packet.data(), packet.size(), 0,
               reinterpret_cast<const sockaddr*>(path.data()), static_cast<socklen_t>(path.size()));
    if (sent < 0 && (errno == EAGAIN || errno == EINTR)) break;
    agent->outbox.pop_front();  // sent, or its receiver is gone
  }
  static thread_local std::vector<char> buffer(65'536);
  for (;;) {
    const ssize_t got = recv(agent->socket, buffer.data(), buffer.size(), 0);
    if (got < 0) break;
    const std::string packet(buffer.data(), static_cast<size_t>(got));
    const size_t end = packet.find('\0');
    if (end != std::string::npos)
      agent->inbox.push_back({packet.substr(0, end), packet.substr(end + 1)});
  }
}

void startCopy(const std::shared_ptr<Copy>& copy) {
  Network& all = network();
  // Half of it at once: a buffer that is taken back in between is caught in the act.
  const size_t half = copy->pieces.size() / 2;
  for (; copy->nextPiece < half; copy->nextPiece++) {
    if (!movePiece(*copy, copy->pieces[copy->nextPiece])) break;
  }
  all.copies.push_back(copy);
  if (!all.hasThread) {
    all.hasThread = true;
    std::thread(runProgress).detach();
  }
  all.wake.notify_one();
}

int pollCopy(Copy& copy) {
  if (copy.status == kInProgress && copy.pollsLeft > 0 && --copy.pollsLeft == 0) complete(copy);
  return copy.status;
}

void releaseNeverEnding() {
  for (const auto& copy : network().copies) copy->isNeverEnding = false;
  network().wake.notify_one();
}

}  // namespace fakenixl
