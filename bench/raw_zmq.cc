// Measures ZeroMQ without Sluice: DEALER sockets that send to ROUTER sockets in other processes.
//
// Each receiver is a child process with one ROUTER (Receiving). One sender runs in this process, the others
// in children; they add up the bytes that they have moved in shared memory (Streams). All children are forked
// before this process creates its own ZeroMQ context, whose threads a fork would not copy. MeasureRaw calls
// these functions while no other thread exists. An error in a child ends that child only.
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <string>

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

std::byte* Data(Message* message) {
  return static_cast<std::byte*>(zmq_msg_data(&message->native));
}

// Makes a message of `bytes` bytes and returns its memory, which the caller fills.
std::byte* Make(Message* message, size_t bytes) {
  if (zmq_msg_init_size(&message->native, bytes) < 0) Broken("zmq message");
  return Data(message);
}

void SendNext(void* dealer, Ring* ring, Echo echo = Echo::kSame) {
  Message message;
  if (echo == Echo::kSums) {
    std::memcpy(Make(&message, ring->message()), ring->Next(), ring->message());
  } else {
    zmq_msg_init_data(
        &message.native, ring->Next(), ring->message(), [](void*, void*) {}, nullptr);
  }
  message.Send(dealer);
}

void EchoAll(void* router) {
  while (true) {
    Message id, body;
    id.Receive(router);
    body.Receive(router);
    id.Send(router, ZMQ_SNDMORE);
    body.Send(router);
  }
}

void EchoSums(void* router, Ring* sums) {
  while (true) {
    Message id, body, answer;
    id.Receive(router);
    body.Receive(router);
    std::byte* sum = sums->Next();
    AddTo(sum, Data(&body), sums->message());
    std::memcpy(Make(&answer, sums->message()), sum, sums->message());
    id.Send(router, ZMQ_SNDMORE);
    answer.Send(router);
  }
}

// Receives forever, and sends each sender an empty message after every `batch` messages that it has sent. If
// `sums` is not null, adds each message to the next part of it.
void Acknowledge(void* router, size_t batch, Ring* sums) {
  std::map<std::string, size_t> came;
  while (true) {
    Message id, body;
    id.Receive(router);
    body.Receive(router);
    if (sums != nullptr) AddTo(sums->Next(), Data(&body), sums->message());
    size_t& count = came[std::string(reinterpret_cast<char*>(Data(&id)), zmq_msg_size(&id.native))];
    if (++count % batch != 0) continue;
    id.Send(router, ZMQ_SNDMORE);
    Message().Send(router);
  }
}

// A child process with a ROUTER that is bound to a free TCP port or an abstract Unix socket, and runs `body`.
// It passes its endpoint to the parent through a pipe.
class Receiving {
 public:
  Receiving(bool local, const std::function<void(void* router)>& body) {
    if (pipe(pipe_) < 0) Broken("pipe");
    child_ = std::make_unique<Child>([&] {
      Socket router(ZMQ_ROUTER);
      const std::string name = StrCat("ipc://@sluice-raw-zmq-", getpid());
      if (zmq_bind(router.native, local ? name.c_str() : "tcp://127.0.0.1:*") < 0) return;
      char endpoint[256] = {};
      size_t length = sizeof endpoint;
      zmq_getsockopt(router.native, ZMQ_LAST_ENDPOINT, endpoint, &length);
      if (write(pipe_[1], endpoint, sizeof endpoint) < 0) return;
      body(router.native);
    });
    close(pipe_[1]);
    char endpoint[256] = {};
    if (read(pipe_[0], endpoint, sizeof endpoint) <= 0) Broken("read");
    close(pipe_[0]);
    endpoint_ = endpoint;
  }
  const std::string& endpoint() const { return endpoint_; }
  double CpuSeconds() const { return child_->CpuSeconds(); }

 private:
  int pipe_[2];
  std::string endpoint_;
  std::unique_ptr<Child> child_;
};

// One iteration of a sender, repeated until its process ends. Returns the number of bytes that it has moved.
using Step = std::function<size_t()>;
// Sends the first messages of a sender and returns its Step.
using Sender = std::function<Step(void* dealer)>;

double CpuSecondsHere() {
  timespec used;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

// The senders and receivers of one measurement. One of the senders runs in this process.
class Streams {
 public:
  Streams(const RawOptions& options, const std::function<void(void* router)>& receive, const Sender& send)
      : options_(options),
        moved_(static_cast<std::atomic<size_t>*>(
            mmap(nullptr, kMoved, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {
    if (moved_ == MAP_FAILED) Broken("mmap");
    for (size_t i = 0; i < options.receivers; ++i)
      receivers_.push_back(std::make_unique<Receiving>(options.local, receive));
    for (size_t i = 1; i < options.senders; ++i) {
      others_.push_back(std::make_unique<Child>([&] {
        Socket dealer(ZMQ_DEALER);
        Connect(dealer.native);
        const Step step = send(dealer.native);
        while (true) *moved_ += step();
      }));
    }
    dealer_ = std::make_unique<Socket>(ZMQ_DEALER);  // its context starts threads, so no fork may follow
    Connect(dealer_->native);
    step_ = send(dealer_->native);
  }
  ~Streams() { munmap(moved_, kMoved); }
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;

  LoopFigures Measure() {
    std::vector<double> rates, costs;
    for (int i = 0; i <= options_.repeats; ++i) {
      const double start = Now(), used = CpuSeconds();
      const size_t others = *moved_;
      size_t mine = 0;
      while (Now() - start < options_.seconds) mine += step_();
      const double gbyte = 1e-9 * static_cast<double>(mine + *moved_ - others);
      if (i == 0) continue;  // warm-up
      rates.push_back(gbyte * 8 / (Now() - start));
      costs.push_back((CpuSeconds() - used) / gbyte);
    }
    return {Median(rates), Median(costs)};
  }

 private:
  static constexpr size_t kMoved = sizeof(std::atomic<size_t>);

  void Connect(void* dealer) const {
    for (const auto& receiver : receivers_)
      if (zmq_connect(dealer, receiver->endpoint().c_str()) < 0) Broken("zmq connect");
  }

  double CpuSeconds() const {
    double seconds = CpuSecondsHere();
    for (const auto& receiver : receivers_) seconds += receiver->CpuSeconds();
    for (const auto& other : others_) seconds += other->CpuSeconds();
    return seconds;
  }

  const RawOptions options_;
  std::atomic<size_t>* const moved_;  // bytes moved by the other senders; in memory shared with them
  std::vector<std::unique_ptr<Receiving>> receivers_;
  std::vector<std::unique_ptr<Child>> others_;
  Step step_;  // owns the ring that zero-copy messages point into, so it must outlive the socket
  std::unique_ptr<Socket> dealer_;
};

}  // namespace

size_t MessagesInFlight(const RawOptions& options) {
  return std::clamp<size_t>((32u << 20) / options.message_bytes, 3, 512);
}

double ZmqOneWay(const RawOptions& options, Receiver receiver) {
  const size_t of_receiver = MessagesInFlight(options), batch = of_receiver * options.receivers;
  const auto receive = [&](void* router) {
    if (receiver == Receiver::kDrops) return Acknowledge(router, of_receiver, nullptr);
    Ring sums(options.message_bytes, options.working_set / options.receivers);
    Acknowledge(router, of_receiver, &sums);
  };
  const auto send = [&](void* dealer) -> Step {
    const auto ring = std::make_shared<Ring>(options.message_bytes, options.working_set);
    const auto send_batch = [=] {
      for (size_t i = 0; i < batch; ++i) SendNext(dealer, ring.get());
    };
    send_batch();  // one batch more than is acknowledged is always in flight, so the stream never pauses
    return [=, receivers = options.receivers] {
      send_batch();
      for (size_t i = 0; i < receivers; ++i) Message().Receive(dealer);
      return batch * ring->message();
    };
  };
  return Streams(options, receive, send).Measure().gbit;
}

LoopFigures ZmqBothWays(const RawOptions& options, size_t in_flight, Echo echo) {
  const auto receive = [&](void* router) {
    if (echo == Echo::kSame) return EchoAll(router);
    Ring sums(options.message_bytes, options.working_set / options.receivers);
    EchoSums(router, &sums);
  };
  const auto send = [&](void* dealer) -> Step {
    const auto ring = std::make_shared<Ring>(options.message_bytes, options.working_set);
    const auto results =
        std::make_shared<Ring>(options.message_bytes, echo == Echo::kSums ? options.working_set : 0);
    for (size_t i = 0; i < in_flight; ++i) SendNext(dealer, ring.get(), echo);
    return [=] {
      Message answer;
      answer.Receive(dealer);
      if (echo == Echo::kSums) std::memcpy(results->Next(), Data(&answer), results->message());
      SendNext(dealer, ring.get(), echo);
      return ring->message();
    };
  };
  return Streams(options, receive, send).Measure();
}

double ZmqRoundTrip(const RawOptions& options) {
  const Receiving peer(options.local, EchoAll);
  Socket dealer(ZMQ_DEALER);
  if (zmq_connect(dealer.native, peer.endpoint().c_str()) < 0) Broken("zmq connect");
  std::vector<double> times;
  const double end = Now() + options.seconds * options.repeats;
  for (int i = 0; i < 1000 || Now() < end; ++i) {
    const double start = Now();
    zmq_send(dealer.native, "four", 4, 0);
    Message().Receive(dealer.native);
    if (i >= 200) times.push_back((Now() - start) * 1e6);
  }
  return Median(std::move(times));
}

}  // namespace sluice::bench
