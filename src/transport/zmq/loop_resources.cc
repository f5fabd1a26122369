#include "transport/zmq/loop_resources.h"

#include <zmq.h>

#include <algorithm>

#include "base/strings.h"
#include "transport/zmq/peers.h"

namespace sluice::transport {

void LoopResources::Warn(const Peer* peer, const std::string& what) {
  uint64_t suppressed = 0;
  if (!log.Allow(Now(), &suppressed)) return;
  LOG(WARNING) << WrapLogged(
      StrCat(options.name, ": ", peer == nullptr ? "" : peer->name + ": ", what, SuppressedText(suppressed)));
}

void LoopResources::Configure(ZmqSocket* socket) const {
  // A water mark drops by message count and silently; Sender bounds bytes instead.
  socket->Set(ZMQ_SNDHWM, 0);
  socket->Set(ZMQ_RCVHWM, 0);
  socket->Set(ZMQ_MAXMSGSIZE, static_cast<int64_t>(std::max(options.limits.max_frame_bytes,
                                                            options.limits.max_envelope_bytes)));
  socket->Set(ZMQ_LINGER, Milliseconds(options.linger));
  socket->Set(ZMQ_HANDSHAKE_IVL, Milliseconds(options.handshake_timeout));
  socket->Set(ZMQ_HEARTBEAT_IVL, Milliseconds(options.heartbeat_interval));
  socket->Set(ZMQ_HEARTBEAT_TIMEOUT, Milliseconds(options.heartbeat_timeout));
  socket->Set(ZMQ_TCP_KEEPALIVE, 1);
  socket->Set(ZMQ_TCP_KEEPALIVE_IDLE, 60);
}

}  // namespace sluice::transport
