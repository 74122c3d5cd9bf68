// Memory that another process maps, and descriptors on their way there.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <vector>

#include "../descriptor_passing.h"
#include "../host_memory.h"
#include "../limits.h"
#include "check.h"

using namespace kvferry;

namespace {

/** Closed at the end of the case. */
struct SocketPair {
  explicit SocketPair(int type) { REQUIRE(socketpair(AF_UNIX, type, 0, ends) == 0); }
  ~SocketPair() {
    for (const int end : ends) {
      if (end >= 0) close(end);
    }
  }
  int ends[2] = {-1, -1};
};

bool isOpen(int descriptor) { return fcntl(descriptor, F_GETFD) >= 0; }

int lowestFree() {
  const int descriptor = dup(2);
  close(descriptor);
  return descriptor;
}

/** Sends `count` copies of descriptor 2 at once, which trySendDescriptor never does. */
void sendMany(int socket, size_t count) {
  std::vector<int> descriptors(count, 2);
  std::vector<uint8_t> control(CMSG_SPACE(count * sizeof(int)));
  char byte = 1;
  iovec bytes = {&byte, 1};
  msghdr header = {};
  header.msg_iov = &bytes;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  cmsghdr* part = CMSG_FIRSTHDR(&header);
  part->cmsg_level = SOL_SOCKET;
  part->cmsg_type = SCM_RIGHTS;
  part->cmsg_len = CMSG_LEN(count * sizeof(int));
  std::memcpy(CMSG_DATA(part), descriptors.data(), count * sizeof(int));
  REQUIRE(sendmsg(socket, &header, 0) == 1);
}

}  // namespace

TEST("shared memory: aligned, one set of pages, each mapping freed alone") {
  std::shared_ptr<HostMemory> ours;
  REQUIRE(HostMemory::allocateShared((2 << 20) + 5, true, &ours).ok());
  CHECK_EQ(ours->address() % (2 << 20), 0u);
  const int descriptor = ours->descriptor();
  CHECK((fcntl(descriptor, F_GETFD) & FD_CLOEXEC) != 0);
  std::shared_ptr<HostMemory> theirs;
  REQUIRE(HostMemory::import(descriptor, ours->sizeBytes(), &theirs).ok());
  CHECK_EQ(theirs->address() % (2 << 20), 0u);
  ours->data()[(2 << 20) + 4] = 7;
  CHECK_EQ(theirs->data()[(2 << 20) + 4], 7u);
  REQUIRE(ours->free().ok());
  CHECK(!isOpen(descriptor));
  CHECK_EQ(ours->descriptor(), -1);
  CHECK_EQ(theirs->data()[(2 << 20) + 4], 7u);
  const int kept = theirs->descriptor();
  theirs.reset();
  CHECK(!isOpen(kept));
}

TEST("shared memory: what an import can't rely on is refused, and nothing stays open") {
  std::shared_ptr<HostMemory> memory;
  const int file = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  REQUIRE(ftruncate(file, 8'192) == 0);
  const int next = lowestFree();
  CHECK(HostMemory::import(-1, 8'192, &memory).status == Status::kOutOfRange);
  CHECK(HostMemory::import(file, 0, &memory).status == Status::kLimit);
  CHECK(HostMemory::import(file, 8'193, &memory).status == Status::kMessageInvalid);
  CHECK_EQ(lowestFree(), next);
  // The attempt has sealed it: nobody can shrink it between check and use.
  CHECK(ftruncate(file, 4'096) != 0);
  REQUIRE(fcntl(file, F_ADD_SEALS, F_SEAL_WRITE) == 0);
  CHECK(HostMemory::import(file, 8'192, &memory).status == Status::kMessageInvalid);
  const int pipeEnds = open("/dev/null", O_RDWR | O_CLOEXEC);
  CHECK(HostMemory::import(pipeEnds, 1, &memory).status == Status::kMessageInvalid);
  close(pipeEnds);
  CHECK_EQ(lowestFree(), next);
  CHECK(memory == nullptr);
  close(file);
}

TEST("descriptor passing: over streams and packets, one by one, in order") {
  for (const int type : {SOCK_STREAM, SOCK_SEQPACKET}) {
    SocketPair pair(type);
    int descriptor = 0;
    std::vector<uint8_t> message;
    REQUIRE(tryReceiveDescriptor(pair.ends[1], &descriptor, &message).ok());
    CHECK_EQ(descriptor, -1);
    for (uint8_t i = 1; i <= 3; i++) {
      bool isSent = false;
      REQUIRE(trySendDescriptor(pair.ends[0], 2, &i, 1, &isSent).ok());
      CHECK(isSent);
    }
    for (uint8_t i = 1; i <= 3; i++) {
      REQUIRE(tryReceiveDescriptor(pair.ends[1], &descriptor, &message).ok());
      REQUIRE(descriptor >= 0);
      CHECK((fcntl(descriptor, F_GETFD) & FD_CLOEXEC) != 0);
      CHECK_EQ(message.size(), 1u);
      CHECK_EQ(message[0], i);
      close(descriptor);
    }
    close(pair.ends[0]);
    pair.ends[0] = -1;
    CHECK(tryReceiveDescriptor(pair.ends[1], &descriptor, &message).status == Status::kClosed);
    bool isSent = false;
    const uint8_t byte = 0;
    CHECK(trySendDescriptor(pair.ends[1], 2, &byte, 1, &isSent).status == Status::kClosed);
  }
}

TEST("descriptor passing: several descriptors in one message are refused and closed") {
  for (const size_t count : {2u, 8u, 9u, 100u}) {
    SocketPair pair(SOCK_STREAM);
    sendMany(pair.ends[0], count);
    const int next = lowestFree();
    int descriptor = 0;
    std::vector<uint8_t> message;
    const Result result = tryReceiveDescriptor(pair.ends[1], &descriptor, &message);
    CHECK(result.status == Status::kMessageInvalid);
    CHECK_EQ(descriptor, -1);
    CHECK_EQ(lowestFree(), next);
  }
}

TEST("descriptor passing: a message over the limit is refused, and its descriptor closed") {
  SocketPair pair(SOCK_SEQPACKET);
  const std::vector<uint8_t> largest(limits::kDescriptorMessageSizeBytesMax, 1);
  bool isSent = false;
  REQUIRE(trySendDescriptor(pair.ends[0], 2, largest.data(), largest.size(), &isSent).ok());
  int descriptor = -1;
  std::vector<uint8_t> message;
  REQUIRE(tryReceiveDescriptor(pair.ends[1], &descriptor, &message).ok());
  CHECK(message == largest);
  close(descriptor);
  const std::vector<uint8_t> longer(largest.size() + 1, 1);
  CHECK(trySendDescriptor(pair.ends[0], 2, longer.data(), longer.size(), &isSent).status ==
        Status::kOutOfRange);
  CHECK(trySendDescriptor(pair.ends[0], 2, longer.data(), 0, &isSent).status ==
        Status::kOutOfRange);
  REQUIRE(send(pair.ends[0], longer.data(), longer.size() + 0, 0) > 0);
  CHECK(tryReceiveDescriptor(pair.ends[1], &descriptor, &message).status ==
        Status::kMessageInvalid);
  const int file = open("/dev/null", O_RDWR | O_CLOEXEC);
  CHECK(tryReceiveDescriptor(file, &descriptor, &message).status == Status::kOutOfRange);
  CHECK(tryReceiveDescriptor(-1, &descriptor, &message).status == Status::kOutOfRange);
  close(file);
}
