// Wraps libzmq's socket functions: a call that fails for want of descriptors or sockets throws
// Error(kResourceExhausted), which names the limit; an option that libzmq refuses is a bug and ends the
// process. ZmqDriver and ConnectionMonitor use the sockets under the driver's lock; ReceiveTexts and
// SendTexts serve the thread of ZmqContext.
#include "transport/zmq/socket.h"

#include <zmq.h>

#include <csignal>

#include "base/check.h"
#include "base/limits.h"
#include "base/strings.h"
#include "sluice/error.h"

namespace sluice::transport {
namespace {

void ThrowIfLimited(const std::string& what, int error) {
  if (!MeansNoDescriptor(error)) return;
  if (!DescriptorsAreUsedUp()) {
    throw Error(ErrorCode::kResourceExhausted,
                StrCat(what, ": a process has at most ", ZmqSocket::kMaxSockets,
                       " sockets; fewer servers, or SLUICE_SERVER_THREADS, take fewer of them"));
  }
  throw Error(ErrorCode::kResourceExhausted, StrCat(what, ": ", DescriptorLimitText()));
}

}  // namespace

ZmqSocket::ZmqSocket(void* context, int type) : native_(zmq_socket(context, type)) {
  if (native_ == nullptr) {
    ThrowIfLimited(StrCat("cannot open a ZeroMQ socket: ", zmq_strerror(zmq_errno())), zmq_errno());
    throw Error(ErrorCode::kResourceExhausted,
                StrCat("cannot open a ZeroMQ socket: ", zmq_strerror(zmq_errno())));
  }
}

void ZmqSocket::Close() {
  if (native_ != nullptr) zmq_close(std::exchange(native_, nullptr));
}

void ZmqSocket::Set(int option, int value) {
  SLUICE_CHECK(zmq_setsockopt(native_, option, &value, sizeof value) == 0)
      << "option " << option << " = " << value << ": " << zmq_strerror(zmq_errno());
}
void ZmqSocket::Set(int option, int64_t value) {
  SLUICE_CHECK(zmq_setsockopt(native_, option, &value, sizeof value) == 0)
      << "option " << option << " = " << value << ": " << zmq_strerror(zmq_errno());
}
void ZmqSocket::Set(int option, std::string_view value) {
  SLUICE_CHECK(zmq_setsockopt(native_, option, value.data(), value.size()) == 0)
      << "option " << option << " of " << value.size() << " bytes: " << zmq_strerror(zmq_errno());
}

void ZmqSocket::Bind(const std::string& address, const std::string& advice) {
  if (zmq_bind(native_, address.c_str()) == 0) return;
  const int error = zmq_errno();
  if (error == EADDRINUSE) {
    throw Error(ErrorCode::kUnavailable,
                StrCat("cannot listen on ", address, ": it is in use", advice.empty() ? "" : "; ", advice));
  }
  ThrowIfLimited(StrCat("cannot listen on ", address), error);
  throw Error(ErrorCode::kInvalidArgument, StrCat("cannot listen on ", address, ": ", zmq_strerror(error),
                                                  advice.empty() ? "" : "; ", advice));
}

void ZmqSocket::Connect(const std::string& address) {
  if (zmq_connect(native_, address.c_str()) == 0) return;
  ThrowIfLimited(StrCat("cannot connect to ", address), zmq_errno());
  throw Error(ErrorCode::kInvalidArgument,
              StrCat("cannot connect to '", address, "': ", zmq_strerror(zmq_errno()),
                     "; an address is tcp://host:port or ipc://path"));
}

std::string ZmqSocket::LastEndpoint() const {
  char text[512];
  size_t size = sizeof text;
  SLUICE_CHECK(zmq_getsockopt(native_, ZMQ_LAST_ENDPOINT, text, &size) == 0) << zmq_strerror(zmq_errno());
  return std::string(text);
}

int ZmqSocket::fd() const {
  int fd = -1;
  size_t size = sizeof fd;
  SLUICE_CHECK(zmq_getsockopt(native_, ZMQ_FD, &fd, &size) == 0) << zmq_strerror(zmq_errno());
  return fd;
}

bool ZmqSocket::Readable() const {
  int events = 0;
  size_t size = sizeof events;
  // When the context is ending, this returns true: the read that follows reports it.
  return zmq_getsockopt(native_, ZMQ_EVENTS, &events, &size) != 0 || (events & ZMQ_POLLIN) != 0;
}

std::optional<size_t> ReceiveTexts(void* socket, std::string* texts, size_t count) {
  zmq_msg_t frame;
  zmq_msg_init(&frame);
  size_t frames = 0;
  bool more = true;
  while (more) {
    if (zmq_msg_recv(&frame, socket, 0) < 0) {
      if (zmq_errno() == EINTR) continue;
      zmq_msg_close(&frame);
      return std::nullopt;
    }
    if (frames < count)
      texts[frames].assign(static_cast<const char*>(zmq_msg_data(&frame)), zmq_msg_size(&frame));
    ++frames;
    more = zmq_msg_more(&frame) != 0;
  }
  zmq_msg_close(&frame);
  return frames;
}

void SendTexts(void* socket, std::initializer_list<std::string_view> texts) {
  size_t left = texts.size();
  for (const std::string_view text : texts) {
    if (zmq_send(socket, text.data(), text.size(), --left > 0 ? ZMQ_SNDMORE : 0) < 0) return;
  }
}

void BlockSignals() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, nullptr);
}

}  // namespace sluice::transport
