#include <time.h>
#include <unistd.h>
#include <zmq.h>

#include <algorithm>

#include "base/strings.h"
#include "raw_parts.h"

namespace sluice::bench {
namespace {

struct Socket {
  void* context = zmq_ctx_new();
  void* native = nullptr;
  explicit Socket(int type) : native(zmq_socket(context, type)) {
    const int zero = 0;
    zmq_setsockopt(native, ZMQ_LINGER, &zero, sizeof zero);
  }
  ~Socket() {
    zmq_close(native);
    zmq_ctx_term(context);
  }
};

struct Message {
  zmq_msg_t native;
  Message() { zmq_msg_init(&native); }
  ~Message() { zmq_msg_close(&native); }
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;
  void Receive(void* socket) {
    if (zmq_msg_recv(&native, socket, 0) < 0) Broken("zmq receive");
  }
  void Send(void* socket, int flags = 0) {
    if (zmq_msg_send(&native, socket, flags) < 0) Broken("zmq send");
  }
};

void SendNext(void* dealer, Ring* ring) {
  Message message;
  zmq_msg_init_data(
      &message.native, ring->Next(), ring->message(), [](void*, void*) {}, nullptr);
  message.Send(dealer);
}

void Echo(void* router) {
  while (true) {
    Message id, body;
    id.Receive(router);
    body.Receive(router);
    id.Send(router, ZMQ_SNDMORE);
    body.Send(router);
  }
}

// The child binds to any port, or a name without a file, and tells it through a pipe.
using Measure = std::function<double(void* dealer, const Child& peer)>;
double WithPeer(bool local, const std::function<void(void* router)>& peer, const Measure& measure) {
  int pipe_fds[2];
  if (pipe(pipe_fds) < 0) Broken("pipe");
  const Child child([&] {
    Socket router(ZMQ_ROUTER);
    const std::string name = StrCat("ipc://@sluice-raw-zmq-", getpid());
    if (zmq_bind(router.native, local ? name.c_str() : "tcp://127.0.0.1:*") < 0) return;
    char endpoint[256] = {};
    size_t length = sizeof endpoint;
    zmq_getsockopt(router.native, ZMQ_LAST_ENDPOINT, endpoint, &length);
    if (write(pipe_fds[1], endpoint, sizeof endpoint) < 0) return;
    peer(router.native);
  });
  close(pipe_fds[1]);
  char endpoint[256] = {};
  if (read(pipe_fds[0], endpoint, sizeof endpoint) <= 0) Broken("read");
  close(pipe_fds[0]);
  Socket dealer(ZMQ_DEALER);
  if (zmq_connect(dealer.native, endpoint) < 0) Broken("zmq connect");
  return measure(dealer.native, child);
}

// Median of what `step`, again and again, moves per second.
double Rate(const RawOptions& options, const std::function<size_t()>& step) {
  std::vector<double> rates;
  for (int i = 0; i <= options.repeats; ++i) {
    const double start = Now();
    size_t bytes = 0;
    while (Now() - start < options.seconds) bytes += step();
    if (i > 0) rates.push_back(static_cast<double>(bytes) * 8e-9 / (Now() - start));  // the first warms up
  }
  return Median(rates);
}

double CpuSecondsHere() {
  timespec used;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

// So many messages are under way at once, ZeroMQ's own bound of messages never reached.
size_t Window(const RawOptions& options) {
  return std::clamp<size_t>((32u << 20) / options.message_bytes, 3, 512);
}

}  // namespace

double ZmqOneWay(const RawOptions& options, Receiver receiver) {
  const size_t batch = Window(options);
  const auto peer = [&](void* router) {
    Ring sums(options.message_bytes, receiver == Receiver::kAddsUp ? options.working_set : 0);
    while (true) {
      for (size_t i = 1; i <= batch; ++i) {
        Message id, body;
        id.Receive(router);
        body.Receive(router);
        if (receiver == Receiver::kAddsUp)
          AddTo(sums.Next(), static_cast<const std::byte*>(zmq_msg_data(&body.native)), sums.message());
        if (i < batch) continue;
        id.Send(router, ZMQ_SNDMORE);
        Message().Send(router);
      }
    }
  };
  Ring ring(options.message_bytes, options.working_set);  // outlives the socket, which reads it to the end
  return WithPeer(options.local, peer, [&](void* dealer, const Child&) {
    const auto send_batch = [&] {
      for (size_t i = 0; i < batch; ++i) SendNext(dealer, &ring);
    };
    send_batch();  // one ahead, so that the stream never runs dry
    return Rate(options, [&] {
      send_batch();
      Message().Receive(dealer);
      return batch * ring.message();
    });
  });
}

LoopFigures ZmqBothWays(const RawOptions& options, size_t under_way) {
  if (under_way == 0) under_way = Window(options);
  Ring ring(options.message_bytes, options.working_set);
  LoopFigures figures;
  figures.gbit = WithPeer(options.local, Echo, [&](void* dealer, const Child& peer) {
    for (size_t i = 0; i < under_way; ++i) SendNext(dealer, &ring);
    size_t bytes = 0;
    const auto used = [&] { return peer.CpuSeconds() + CpuSecondsHere(); };
    const double before = used();
    const double gbit = Rate(options, [&] {
      Message().Receive(dealer);
      SendNext(dealer, &ring);
      bytes += ring.message();
      return ring.message();
    });
    figures.cpu_s_per_gb = (used() - before) / (1e-9 * static_cast<double>(bytes));
    return gbit;
  });
  return figures;
}

double ZmqRoundTrip(const RawOptions& options) {
  return WithPeer(options.local, Echo, [&](void* dealer, const Child&) {
    std::vector<double> times;
    const double end = Now() + options.seconds * options.repeats;
    for (int i = 0; i < 1000 || Now() < end; ++i) {
      const double start = Now();
      zmq_send(dealer, "four", 4, 0);
      Message().Receive(dealer);
      if (i >= 200) times.push_back((Now() - start) * 1e6);
    }
    return Median(std::move(times));
  });
}

}  // namespace sluice::bench
