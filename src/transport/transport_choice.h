// How workers and servers reach each other (SLUICE_TRANSPORT). loop_factory.cc says which loops carry each.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace sluice::transport {

// Between hosts it is always TCP.
enum class TransportChoice : uint8_t {
  kAuto,  // payloads through shared memory within a host, all else through sockets
  kTcp,   // TCP only
  kIpc,   // ipc sockets only, on one host
  kShm,   // as kAuto, but the job fails where memory cannot be shared
};
// Their names, in the order of the values, and as a message lists them.
inline constexpr std::array<std::string_view, 4> kTransportNames = {"auto", "tcp", "ipc", "shm"};
inline constexpr std::string_view kTransportNamesText = "auto, tcp, ipc or shm";

// Returns nullopt when no transport has this name.
inline std::optional<TransportChoice> ParseTransport(std::string_view name) {
  for (size_t i = 0; i < kTransportNames.size(); ++i)
    if (name == kTransportNames[i]) return static_cast<TransportChoice>(i);
  return std::nullopt;
}

}  // namespace sluice::transport
