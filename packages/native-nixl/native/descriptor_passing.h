// Open descriptors from process to process, over a connected unix socket (SCM_RIGHTS): how memory
// of an engine reaches the process that moves it. One descriptor a message, with some bytes that
// say what it is. Never waits: whoever calls tries again. Any thread; a socket is used by one at a
// time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "status.h"

namespace kvferry {

/**
 * Takes one message. `*descriptor` stays -1 while there is none; else it is open, closed on exec,
 * and the caller's. kClosed: the other end is gone; kMessageInvalid: a message without exactly one
 * descriptor or over the limit (its descriptors are closed); kOutOfRange: no unix socket.
 */
Result tryReceiveDescriptor(int socket, int* descriptor, std::vector<uint8_t>* message);

/**
 * Sends one message (1 to kDescriptorMessageSizeBytesMax bytes). `*isSent` stays false while there
 * is no room. kClosed: the other end is gone; kOutOfRange: no unix socket, no open descriptor, or
 * size.
 */
Result trySendDescriptor(int socket, int descriptor, const uint8_t* message, size_t sizeBytes,
                         bool* isSent);

}  // namespace kvferry
