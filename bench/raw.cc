#include "raw.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/strings.h"
#include "sluice/error.h"

namespace sluice::bench {
namespace {

[[noreturn]] void Broken(const char* what) {
  throw Error(ErrorCode::kUnavailable, StrCat("raw measurement: ", what, " failed: ", std::strerror(errno)));
}

double Now() {
  return ToSeconds(std::chrono::steady_clock::now().time_since_epoch());
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Memory walked through in steps of one message, so that no message finds its bytes in a cache.
class Ring {
 public:
  Ring(size_t message, size_t total)
      : message_(message), count_(std::max<size_t>(1, total / message)), buffer_(message * count_) {
    std::memset(buffer_.data(), 1, buffer_.size());
  }
  std::byte* Next() { return buffer_.data() + message_ * (next_++ % count_); }
  size_t message() const { return message_; }

 private:
  size_t message_, count_, next_ = 0;
  Buffer buffer_;
};

// A child process that ends with this one; killed and reaped at the end of the scope.
class Child {
 public:
  explicit Child(const std::function<void()>& body) : pid_(fork()) {
    if (pid_ < 0) Broken("fork");
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      try {
        body();
      } catch (...) {
        _exit(1);
      }
      _exit(0);
    }
  }
  ~Child() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

 private:
  pid_t pid_;
};

int Listen(uint16_t* port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  if (fd < 0 || bind(fd, reinterpret_cast<sockaddr*>(&address), length) < 0 || listen(fd, 8) < 0 ||
      getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) < 0) {
    Broken("listen");
  }
  *port = ntohs(address.sin_port);
  return fd;
}

int ConnectTo(uint16_t port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  if (fd < 0 || connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) < 0) Broken("connect");
  return fd;
}

void SendUntil(int fd, Ring& ring, const std::atomic<bool>& stop) {
  while (!stop) {
    const std::byte* data = ring.Next();
    for (size_t done = 0; done < ring.message();) {
      const ssize_t sent = send(fd, data + done, ring.message() - done, MSG_NOSIGNAL);
      if (sent <= 0) return;
      done += static_cast<size_t>(sent);
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

// A stream has no messages: small ones are not sent one by one.
RawOptions OfStream(RawOptions options) {
  options.message_bytes = std::max<size_t>(options.message_bytes, 64 << 10);
  return options;
}

// Each side sends on one connection and receives on the other. The parent counts what it receives and what
// the child acknowledges by TCP's own flow control: both streams run at the same time, and the parent's sent
// bytes are those the child has taken from its socket buffers.
double TcpTwoStreams(const RawOptions& options) {
  uint16_t port = 0;
  const int listener = Listen(&port);
  const Child child([&] {
    const int in = ConnectTo(port), out = ConnectTo(port);
    Ring to_send(options.message_bytes, options.working_set / 2),
        to_receive(options.message_bytes, options.working_set / 2);
    std::atomic<uint64_t> received = 0;
    std::atomic<bool> never = false;
    std::thread sender([&] { SendUntil(out, to_send, never); });
    Receive(in, to_receive, received);
    shutdown(out, SHUT_RDWR);
    sender.join();
  });
  const int out = accept(listener, nullptr, nullptr), in = accept(listener, nullptr, nullptr);
  if (in < 0 || out < 0) Broken("accept");
  Ring to_send(options.message_bytes, options.working_set / 2),
      to_receive(options.message_bytes, options.working_set / 2);
  std::atomic<uint64_t> received = 0, sent = 0;
  std::atomic<bool> stop = false;
  std::thread receiver([&] { Receive(in, to_receive, received); });
  std::thread sender([&] {
    while (!stop) {
      const std::byte* data = to_send.Next();
      for (size_t done = 0; done < to_send.message() && !stop;) {
        const ssize_t n = send(out, data + done, to_send.message() - done, MSG_NOSIGNAL);
        if (n <= 0) return;
        done += static_cast<size_t>(n);
        sent += static_cast<uint64_t>(n);
      }
    }
  });
  std::vector<double> rates;
  for (int i = 0; i <= options.repeats; ++i) {
    const uint64_t before = received + sent;
    const double start = Now();
    std::this_thread::sleep_for(std::chrono::duration<double>(options.seconds));
    const double rate = static_cast<double>(received + sent - before) * 8e-9 / (Now() - start);
    if (i > 0) rates.push_back(rate);  // the first warms up
  }
  stop = true;
  shutdown(out, SHUT_RDWR);
  shutdown(in, SHUT_RDWR);
  sender.join();
  receiver.join();
  for (const int fd : {in, out, listener}) close(fd);
  return Median(rates);
}

struct ZmqSocket {
  void* context = zmq_ctx_new();
  void* socket = nullptr;
  explicit ZmqSocket(int type) : socket(zmq_socket(context, type)) {
    const int zero = 0;
    zmq_setsockopt(socket, ZMQ_LINGER, &zero, sizeof zero);
  }
  ~ZmqSocket() {
    zmq_close(socket);
    zmq_ctx_term(context);
  }
};

// Reads one whole message and returns the bytes of its last frame.
size_t ReceiveLast(void* socket) {
  zmq_msg_t message;
  int more = 1;
  size_t size = 0;
  while (more) {
    zmq_msg_init(&message);
    if (zmq_msg_recv(&message, socket, 0) < 0) Broken("zmq receive");
    size = zmq_msg_size(&message);
    more = zmq_msg_more(&message);
    zmq_msg_close(&message);
  }
  return size;
}

// The child binds on any port and tells it through a pipe.
double WithZmqPeer(const std::function<void(void* router)>& peer,
                   const std::function<double(void* dealer)>& measure) {
  int pipe_fds[2];
  if (pipe(pipe_fds) < 0) Broken("pipe");
  const Child child([&] {
    ZmqSocket router(ZMQ_ROUTER);
    zmq_bind(router.socket, "tcp://127.0.0.1:*");
    char endpoint[256] = {};
    size_t length = sizeof endpoint;
    zmq_getsockopt(router.socket, ZMQ_LAST_ENDPOINT, endpoint, &length);
    if (write(pipe_fds[1], endpoint, sizeof endpoint) < 0) return;
    peer(router.socket);
  });
  char endpoint[256] = {};
  if (read(pipe_fds[0], endpoint, sizeof endpoint) <= 0) Broken("read");
  close(pipe_fds[0]);
  close(pipe_fds[1]);
  ZmqSocket dealer(ZMQ_DEALER);
  if (zmq_connect(dealer.socket, endpoint) < 0) Broken("zmq connect");
  return measure(dealer.socket);
}

double ZmqOneWay(const RawOptions& options) {
  const size_t batch =
      std::max<size_t>(1, (32u << 20) / options.message_bytes);  // in flight between two acknowledgements
  const auto peer = [&](void* router) {
    while (true) {
      zmq_msg_t id;
      for (size_t i = 0; i < batch; ++i) {
        zmq_msg_init(&id);
        if (zmq_msg_recv(&id, router, 0) < 0) return;
        ReceiveLast(router);
        if (i + 1 < batch) zmq_msg_close(&id);
      }
      zmq_msg_send(&id, router, ZMQ_SNDMORE);
      zmq_send(router, "", 0, 0);
    }
  };
  return WithZmqPeer(peer, [&](void* dealer) {
    Ring ring(options.message_bytes, options.working_set);
    const auto send_batch = [&] {
      for (size_t i = 0; i < batch; ++i) {
        zmq_msg_t message;
        zmq_msg_init_data(
            &message, ring.Next(), ring.message(), [](void*, void*) {}, nullptr);
        if (zmq_msg_send(&message, dealer, 0) < 0) Broken("zmq send");
      }
    };
    std::vector<double> rates;
    send_batch();  // one batch ahead, so that the stream never runs dry
    for (int i = 0; i <= options.repeats; ++i) {
      const double start = Now();
      uint64_t bytes = 0;
      while (Now() - start < options.seconds) {
        send_batch();
        ReceiveLast(dealer);
        bytes += batch * ring.message();
      }
      if (i > 0) rates.push_back(static_cast<double>(bytes) * 8e-9 / (Now() - start));
    }
    ReceiveLast(dealer);
    return Median(rates);
  });
}

double ZmqRoundTrip(const RawOptions& options) {
  const auto peer = [](void* router) {
    while (true) {
      zmq_msg_t id, body;
      zmq_msg_init(&id);
      zmq_msg_init(&body);
      if (zmq_msg_recv(&id, router, 0) < 0 || zmq_msg_recv(&body, router, 0) < 0) return;
      zmq_msg_send(&id, router, ZMQ_SNDMORE);
      zmq_msg_send(&body, router, 0);
    }
  };
  return WithZmqPeer(peer, [&](void* dealer) {
    std::vector<double> times;
    const double end = Now() + options.seconds * options.repeats;
    for (int i = 0; i < 1000 || Now() < end; ++i) {
      const double start = Now();
      zmq_send(dealer, "four", 4, 0);
      ReceiveLast(dealer);
      if (i >= 200) times.push_back((Now() - start) * 1e6);
    }
    return Median(std::move(times));
  });
}

double CopyRate(const RawOptions& options) {
  Ring from(options.message_bytes, options.working_set / 2),
      to(options.message_bytes, options.working_set / 2);
  std::vector<double> rates;
  for (int i = 0; i < options.repeats; ++i) {
    const double start = Now();
    uint64_t bytes = 0;
    while (Now() - start < options.seconds / 4) {
      std::memcpy(to.Next(), from.Next(), from.message());
      bytes += from.message();
    }
    rates.push_back(static_cast<double>(bytes) * 1e-9 / (Now() - start));
  }
  return Median(rates);
}

}  // namespace

RawFigures MeasureRaw(const RawOptions& options) {
  RawFigures figures;
  figures.tcp_two_streams_gbit = TcpTwoStreams(OfStream(options));
  figures.zmq_gbit = ZmqOneWay(options);
  if (options.round_trips) figures.zmq_rtt_us = ZmqRoundTrip(options);
  figures.memcpy_gbyte = CopyRate(OfStream(options));
  return figures;
}

}  // namespace sluice::bench
