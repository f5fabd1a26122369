// What the loops of one process share: ZeroMQ's I/O threads, and the thread that lets peers in or not.
//
// Every socket speaks PLAIN: the user is the job, the password its secret. ZAP
// (https://rfc.zeromq.org/spec/27/) asks the thread here about each handshake, so that no frame of a stranger
// reaches a loop; the data path pays nothing. PLAIN does not encrypt.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>

namespace sluice::transport {

struct ZmqContextOptions {
  std::string job_id;
  std::string secret;  // at most 200 bytes; may be empty: then the job id alone lets peers in
  int io_threads = 1;
};

// Thread-safe. Loops keep it alive. Its end waits for what they left in their sockets' linger time.
class ZmqContext {
 public:
  // Throws Error.
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
  std::thread gatekeeper_;
};

// Compares in a time that depends on the lengths only.
bool SameSecret(const std::string& expected, const std::string& given);

}  // namespace sluice::transport
