// What the fake NIXL is made of. It stands in for the real library where that isn't installed and
// under sanitizers: the same C functions over memcpy (or process_vm_readv between processes), and
// as treacherous as the real one. It accepts what the real one accepts, a transfer goes on writing
// after release, deregistration and invalidation, and misuse that crashes the real one aborts with
// a message.
//
// One mutex guards everything. A progress thread performs delayed copies.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace fakenixl {

using Clock = std::chrono::steady_clock;

constexpr int kSuccess = 0;
constexpr int kInProgress = 1;
constexpr int kInvalidParameter = -1;
constexpr int kBackend = -2;
constexpr int kNotFound = -6;

struct Range {
  uint64_t address = 0;
  uint64_t bytes = 0;
};

/** What an agent knows of another: from its metadata. */
struct Remote {
  std::string name;
  pid_t pid = 0;
  uint64_t incarnation = 0;
  std::vector<std::string> backends;
  std::vector<Range> regions;
};

struct Notification {
  std::string from;
  std::string message;
};

struct Agent {
  std::string name;
  uint64_t incarnation = 0;
  std::thread::id owner;
  std::vector<std::string> backends;
  std::vector<Range> regions;
  std::map<std::string, std::shared_ptr<Remote>> remotes;
  std::vector<Notification> inbox;
  uint64_t polls = 0;
  /** Datagram socket for notifications of other processes, and what it hasn't taken yet. */
  int socket = -1;
  std::deque<std::pair<std::string, std::string>> outbox;
};

struct Piece {
  uint64_t local = 0;
  uint64_t remote = 0;
  uint64_t bytes = 0;
};

/** A posted copy. Lives until it ended, whatever happens to the request that it came from. */
struct Copy {
  std::weak_ptr<Agent> agent;
  std::string from;
  std::shared_ptr<Remote> remote;
  bool isRead = false;
  std::vector<Piece> pieces;
  size_t nextPiece = 0;
  Clock::time_point due;
  int64_t pollsLeft = 0;
  bool isNeverEnding = false;
  /** Waits for a poll of the target beyond this count; 0: doesn't wait. */
  uint64_t targetPollsBefore = 0;
  bool isWaitingForTarget = false;
  bool hasNotification = false;
  std::string notification;
  int status = kInProgress;
};

struct Request {
  std::shared_ptr<Agent> agent;
  std::string peer;
  std::shared_ptr<Remote> remote;
  std::string backend;
  bool isRead = false;
  std::vector<Piece> pieces;
  bool hasNotification = false;
  std::string notification;
  bool isReleased = false;
  std::shared_ptr<Copy> copy;
};

struct Options {
  /** The caller's choice; empty: the library's. */
  std::vector<std::string> backends;
  bool hasNotification = false;
  std::string notification;
};

using NotificationMap = std::vector<std::pair<std::string, std::vector<std::string>>>;

/** The lock of the whole fake. */
std::mutex& mutex();

[[noreturn]] void die(const std::string& reason);

// --- fake_control.cc ---

/** The value of a knob; see fake_control.cc for the list. Needs the lock. */
int64_t knob(const std::string& name);
/** True, and one less, if the knob counts something down. Needs the lock. */
bool takeKnob(const std::string& name);
/** Changes a counter that tests read; of what lives, also the most that lived at once. Needs the lock. */
void count(const std::string& name, int64_t by = 1);

// --- fake_network.cc; all need the lock ---

std::shared_ptr<Agent> findAgent(const std::string& name, uint64_t incarnation);
/** False: the name is taken in this process. */
void addAgent(const std::shared_ptr<Agent>& agent);
void removeAgent(const std::shared_ptr<Agent>& agent);
bool isAlive(const Remote& remote);
/** Copies all pieces that are left. False: the peer is gone. */
bool performCopy(Copy& copy);
void deliver(const std::shared_ptr<Agent>& from, const Remote& to, const std::string& message);
/** Receives from and sends to other processes. */
void exchange(const std::shared_ptr<Agent>& agent);
/** Hands a copy to the progress thread. */
void startCopy(const std::shared_ptr<Copy>& copy);
/** One poll of a copy by its initiator. */
int pollCopy(Copy& copy);
/** Ends all copies that never end. */
void releaseNeverEnding();

}  // namespace fakenixl
