// What the loops of one process share: ZeroMQ's I/O threads, and the thread that admits or refuses peers.
//
// Every socket speaks PLAIN: the user is the job's id, the password its secret. By ZAP
// (https://rfc.zeromq.org/spec/27/) ZeroMQ asks that thread about each handshake, so no frame of an
// unauthenticated peer reaches a loop, and the data path pays nothing. PLAIN does not encrypt.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>

namespace sluice::transport {

struct ZmqContextOptions {
  std::string job_id;
  std::string secret;  // at most 200 bytes; when empty, the job id alone admits peers
  int io_threads = 1;
};

// Thread-safe. Loops keep it alive. The destructor waits until their messages have left, or their sockets'
// linger time is over.
class ZmqContext {
 public:
  // Throws Error: kInvalidArgument when the id or the secret is too long, kResourceExhausted when the system
  // refuses memory, descriptors or threads.
  explicit ZmqContext(ZmqContextOptions options);
  ~ZmqContext();
  ZmqContext(const ZmqContext&) = delete;
  ZmqContext& operator=(const ZmqContext&) = delete;

  // Handshakes refused for a wrong job or secret.
  uint64_t refused() const { return refused_.load(std::memory_order_relaxed); }

  // For the sockets of zmq/: the native context and the credentials as PLAIN carries them.
  void* native() const { return native_; }
  const std::string& user() const { return user_; }
  const std::string& password() const { return password_; }

 private:
  void AnswerHandshakes(void* socket);

  std::string user_;
  std::string password_;
  void* native_ = nullptr;
  std::atomic<uint64_t> refused_ = 0;
  std::thread zap_thread_;
};

// Compares in a time that depends on the lengths only.
bool SameSecret(const std::string& expected, const std::string& given);

}  // namespace sluice::transport
