// Measures one stream socket each way between two processes, TCP over loopback or Unix sockets.
//
// Both processes run the same code (Exchange): one thread sends and one receives, each over a ring larger
// than the caches. MeasureRaw calls TwoStreams while no other thread exists, because it forks.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>

#include "base/strings.h"
#include "raw_parts.h"

namespace sluice::bench {
namespace {

// The address that the parent listens on: a free TCP port of the loopback interface, or an abstract Unix
// socket, which has no file.
class Place {
 public:
  explicit Place(bool local) {
    if (local) {
      at_.un.sun_family = AF_UNIX;
      const std::string name = StrCat("sluice-raw-", getpid());
      name.copy(at_.un.sun_path + 1, sizeof at_.un.sun_path - 1);
      length_ = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    } else {
      at_.in.sin_family = AF_INET;
      at_.in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      length_ = sizeof at_.in;
    }
  }
  int Listen() {
    const int fd = Socket();
    if (fd < 0 || bind(fd, &at_.any, length_) < 0 || listen(fd, 8) < 0 ||
        getsockname(fd, &at_.any, &length_) < 0) {
      Broken("listen");
    }
    return fd;
  }
  int Connect() const {
    const int fd = Socket();
    if (fd < 0 || connect(fd, &at_.any, length_) < 0) Broken("connect");
    return fd;
  }

 private:
  int Socket() const { return socket(at_.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0); }
  union {
    sockaddr any;
    sockaddr_in in;
    sockaddr_un un;
  } at_ = {.un = {}};
  socklen_t length_ = 0;
};

void Send(int fd, Ring& ring, const std::atomic<bool>& stop, std::atomic<uint64_t>& bytes) {
  while (!stop) {
    const std::byte* data = ring.Next();
    for (size_t done = 0; done < ring.message() && !stop;) {
      const ssize_t sent = send(fd, data + done, ring.message() - done, MSG_NOSIGNAL);
      if (sent <= 0) return;
      done += static_cast<size_t>(sent);
      bytes += static_cast<uint64_t>(sent);
    }
  }
}

void Receive(int fd, Ring& ring, std::atomic<uint64_t>& bytes) {
  while (true) {
    std::byte* data = ring.Next();
    for (size_t done = 0; done < ring.message();) {
      const ssize_t got = recv(fd, data + done, ring.message() - done, 0);
      if (got <= 0) return;
      done += static_cast<size_t>(got);
      bytes += static_cast<uint64_t>(got);
    }
  }
}

// Runs one end: sends on `out` and receives on `in` until `wait` returns, then shuts both connections down.
void Exchange(const RawOptions& options, int in, int out, std::atomic<uint64_t>& bytes,
              const std::function<void()>& wait) {
  Ring to_send(options.message_bytes, options.working_set / 2),
      to_receive(options.message_bytes, options.working_set / 2);
  std::atomic<bool> stop = false;
  std::thread receiver([&] { Receive(in, to_receive, bytes); });
  std::thread sender([&] { Send(out, to_send, stop, bytes); });
  wait();
  stop = true;
  shutdown(out, SHUT_RDWR);
  shutdown(in, SHUT_RDWR);
  sender.join();
  receiver.join();
}

}  // namespace

// The parent counts the bytes that it receives and those that it sends. The bytes sent exceed those that the
// child has received by at most the size of the sockets' buffers.
double TwoStreams(const RawOptions& options) {
  Place place(options.local);
  const int listener = place.Listen();
  const Child child([&] {
    const int in = place.Connect(), out = place.Connect();
    std::atomic<uint64_t> bytes = 0;
    Exchange(options, in, out, bytes, [] { pause(); });
  });
  const int out = accept(listener, nullptr, nullptr), in = accept(listener, nullptr, nullptr);
  if (in < 0 || out < 0) Broken("accept");
  std::vector<double> rates;
  std::atomic<uint64_t> bytes = 0;
  Exchange(options, in, out, bytes, [&] {
    for (int i = 0; i <= options.repeats; ++i) {
      const uint64_t before = bytes;
      const double start = Now();
      std::this_thread::sleep_for(std::chrono::duration<double>(options.seconds));
      const double rate = static_cast<double>(bytes - before) * 8e-9 / (Now() - start);
      if (i > 0) rates.push_back(rate);  // the first one is warm-up
    }
  });
  for (const int fd : {in, out, listener}) close(fd);
  return Median(rates);
}

}  // namespace sluice::bench
