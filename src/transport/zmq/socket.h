// A ZeroMQ socket that closes itself and reports errors as sluice::Error. Internal to zmq/. One thread at a
// time.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace sluice::transport {

class ZmqSocket {
 public:
  static constexpr int kMaxSockets = 16384;  // sockets

  // Throws Error(kResourceExhausted); Bind and Connect do, too, when a limit of the system is reached.
  ZmqSocket(void* context, int type);
  ~ZmqSocket() { Close(); }
  ZmqSocket(const ZmqSocket&) = delete;
  ZmqSocket& operator=(const ZmqSocket&) = delete;

  void* native() const { return native_; }
  void Set(int option, int value);
  void Set(int option, int64_t value);
  void Set(int option, std::string_view value);
  // Throws Error: kUnavailable when the address is in use, otherwise kInvalidArgument. The message ends with
  // `advice`.
  void Bind(const std::string& address, const std::string& advice = "");
  void Connect(const std::string& address);
  std::string LastEndpoint() const;
  int fd() const;  // edge-triggered: see ZMQ_FD in zmq_getsockopt(3)
  bool Readable() const;
  void Close();

 private:
  void* native_;
};

// Receives the next message, blocking, and stores its first `count` frames in `texts`. Returns the number of
// all its frames; nullopt when the context is ending.
std::optional<size_t> ReceiveTexts(void* socket, std::string* texts, size_t count);
void SendTexts(void* socket, std::initializer_list<std::string_view> texts);

// Blocks all signals in the calling thread: signals are for the threads of the application.
void BlockSignals();

}  // namespace sluice::transport
