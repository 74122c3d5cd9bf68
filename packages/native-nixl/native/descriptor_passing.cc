#include "descriptor_passing.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "limits.h"

namespace kvferry {
namespace {

/** What a message may carry before it is refused; the kernel closes those beyond. */
constexpr size_t kDescriptorsReadMax = 8;

Result failureOf(const char* operation, int error) {
  switch (error) {
    case EBADF:
    case ENOTSOCK:
    case EINVAL:
    case EOPNOTSUPP:
    case ENOTCONN:
      return Result::outOfRange(operation, std::strerror(error));
    default:
      return Result::failure(Status::kClosed, operation, std::strerror(error));
  }
}

bool isUnixSocket(int socket) {
  sockaddr_storage address = {};
  socklen_t size = sizeof address;
  return getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) == 0 &&
         address.ss_family == AF_UNIX;
}

std::vector<int> descriptorsOf(msghdr& header) {
  std::vector<int> descriptors;
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    descriptors.resize(descriptors.size() + count);
    std::memcpy(descriptors.data() + descriptors.size() - count, CMSG_DATA(part),
                count * sizeof(int));
  }
  return descriptors;
}

}  // namespace

Result tryReceiveDescriptor(int socket, int* descriptor, std::vector<uint8_t>* message) {
  *descriptor = -1;
  if (!isUnixSocket(socket)) return Result::outOfRange("receiveFd", "no unix socket");
  // One byte more than allowed, to tell a message that is too long.
  message->resize(limits::kDescriptorMessageSizeBytesMax + 1);
  iovec bytes = {message->data(), message->size()};
  alignas(cmsghdr) char control[CMSG_SPACE(kDescriptorsReadMax * sizeof(int))] = {};
  msghdr header = {};
  header.msg_iov = &bytes;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  ssize_t length = 0;
  do {
    length = recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (length < 0 && errno == EINTR);
  if (length < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return Result::success();
  if (length < 0) return failureOf("receiveFd", errno);
  const std::vector<int> descriptors = descriptorsOf(header);
  const bool isCut = (header.msg_flags & (MSG_CTRUNC | MSG_TRUNC)) != 0;
  const auto size = static_cast<uint64_t>(length);
  if (descriptors.size() == 1 && !isCut && size >= 1 &&
      size <= limits::kDescriptorMessageSizeBytesMax) {
    *descriptor = descriptors[0];
    message->resize(size);
    return Result::success();
  }
  for (const int each : descriptors) close(each);
  if (length == 0 && descriptors.empty()) {
    return Result::failure(Status::kClosed, "receiveFd", "the other end is closed");
  }
  return Result::failure(Status::kMessageInvalid, "receiveFd",
                         "a message must have one descriptor and 1 to " +
                             std::to_string(limits::kDescriptorMessageSizeBytesMax) +
                             " bytes, not " + std::to_string(descriptors.size()) + " and " +
                             std::to_string(size));
}

Result trySendDescriptor(int socket, int descriptor, const uint8_t* message, size_t sizeBytes,
                         bool* isSent) {
  *isSent = false;
  if (!isUnixSocket(socket)) return Result::outOfRange("sendFd", "no unix socket");
  if (sizeBytes == 0 || sizeBytes > limits::kDescriptorMessageSizeBytesMax) {
    return Result::outOfRange("sendFd", "a message must have 1 to " +
                                            std::to_string(limits::kDescriptorMessageSizeBytesMax) +
                                            " bytes");
  }
  iovec bytes = {const_cast<uint8_t*>(message), sizeBytes};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header = {};
  header.msg_iov = &bytes;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  cmsghdr* part = CMSG_FIRSTHDR(&header);
  part->cmsg_level = SOL_SOCKET;
  part->cmsg_type = SCM_RIGHTS;
  part->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(part), &descriptor, sizeof(int));
  ssize_t length = 0;
  do {
    length = sendmsg(socket, &header, MSG_DONTWAIT | MSG_NOSIGNAL);
  } while (length < 0 && errno == EINTR);
  // ETOOMANYREFS: too many descriptors under way; they are taken from the socket in time.
  if (length < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == ETOOMANYREFS)) {
    return Result::success();
  }
  if (length < 0) return failureOf("sendFd", errno);
  // A stream takes all of so short a message or nothing.
  *isSent = true;
  return Result::success();
}

}  // namespace kvferry
