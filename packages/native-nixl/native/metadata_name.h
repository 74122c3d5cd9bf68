// Reads the agent's name from a metadata blob without loading it: a blob that names another peer of
// ours must not reach the library, where it would replace that peer's connection. Pure; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace kvferry {

/** Nothing if the blob doesn't begin as NIXL's serialiser begins, or the name is empty or too long.
 */
std::optional<std::string> agentNameOfMetadata(const uint8_t* bytes, size_t sizeBytes);

}  // namespace kvferry
