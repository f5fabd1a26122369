// The ZeroMQ context of a process, and the ZAP handler: a thread that receives every handshake of the bound
// sockets and admits those with this job's id and secret. Invariant: the handler is bound before any other
// socket exists and runs until the context shuts down. Descriptors and threads are reserved before ZeroMQ
// asks for them, because it reports no error when it gets none. A node makes one context at its start.
#include "transport/zmq/context.h"

#include <zmq.h>

#include <algorithm>
#include <array>

#include "base/clock.h"
#include "base/executor.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/strings.h"
#include "base/threads.h"
#include "sluice/error.h"
#include "transport/zmq/socket.h"

namespace sluice::transport {
namespace {

constexpr size_t kMaxSecret = 200;  // PLAIN carries 255 bytes
// ZAP: version, request id, domain, address, routing id, mechanism, user, password.
constexpr size_t kZapFrames = 8;
// Descriptors of a context, its I/O threads and zap_thread_, before any connection.
constexpr uint64_t kOwnDescriptors = 24;
constexpr int kOwnThreads = 2;  // ZeroMQ's reaper, zap_thread_
// PLAIN requires that both texts are non-empty.
constexpr const char* kUserPrefix = "job:";
constexpr const char* kPasswordPrefix = "secret:";

}  // namespace

bool SameSecret(const std::string& expected, const std::string& given) {
  unsigned difference = expected.size() == given.size() ? 0 : 1;
  for (size_t i = 0; i < given.size(); ++i) {
    const unsigned char e = expected.empty() ? 0 : static_cast<unsigned char>(expected[i % expected.size()]);
    difference |= e ^ static_cast<unsigned char>(given[i]);
  }
  return difference == 0;
}

ZmqContext::ZmqContext(ZmqContextOptions options)
    : user_(kUserPrefix + options.job_id), password_(kPasswordPrefix + options.secret) {
  if (options.job_id.size() > kMaxSecret || options.secret.size() > kMaxSecret) {
    throw Error(ErrorCode::kInvalidArgument,
                StrCat("job id of ", options.job_id.size(), " and secret of ", options.secret.size(),
                       " bytes: at most ", kMaxSecret, " each"));
  }
  // When ZeroMQ gets no descriptor or thread, it goes on without an error or ends the process.
  ReserveDescriptors(kOwnDescriptors, "the network");
  // QueuedFrame to the end of this constructor: the first socket starts the threads.
  const ThreadReservation threads(options.io_threads + kOwnThreads, "the network");
  native_ = zmq_ctx_new();
  if (native_ == nullptr) throw Error(ErrorCode::kResourceExhausted, "out of memory for a ZeroMQ context");
  zmq_ctx_set(native_, ZMQ_IO_THREADS, options.io_threads);
  zmq_ctx_set(native_, ZMQ_MAX_SOCKETS,
              std::min(ZmqSocket::kMaxSockets, zmq_ctx_get(native_, ZMQ_SOCKET_LIMIT)));
  try {
    // Bound before any other socket exists: libzmq fails the handshakes while there is no handler.
    auto socket = std::make_shared<ZmqSocket>(native_, ZMQ_REP);
    socket->Set(ZMQ_LINGER, 0);
    socket->Bind("inproc://zeromq.zap.01");
    zap_thread_ = StartThread("the network's handshakes", [this, socket = std::move(socket)]() mutable {
      BlockSignals();
      SetThreadName("zap");
      AnswerHandshakes(socket->native());
      socket.reset();
    });
  } catch (...) {
    zmq_ctx_term(native_);
    throw;
  }
}

ZmqContext::~ZmqContext() {
  zmq_ctx_shutdown(native_);  // its receive ends with ETERM
  zap_thread_.join();
  while (zmq_ctx_term(native_) != 0 && zmq_errno() == EINTR) {
  }
}

void ZmqContext::AnswerHandshakes(void* socket) {
  LogLimiter limiter(3, 10s);
  std::array<std::string, kZapFrames> request;
  while (true) {
    const auto frames = ReceiveTexts(socket, request.data(), request.size());
    if (!frames) return;  // the context is ending
    const bool admitted = *frames == kZapFrames && request[5] == "PLAIN" &&
                          SameSecret(user_, request[6]) & SameSecret(password_, request[7]);
    if (!admitted) {
      refused_.fetch_add(1, std::memory_order_relaxed);
      uint64_t suppressed = 0;
      if (limiter.Allow(SteadyClock().Now(), &suppressed)) {
        LOG(WARNING) << WrapLogged(StrCat("refused a connection from ", request[3],
                                          ": it does not have this job's id and secret",
                                          SuppressedText(suppressed)));
      }
    }
    SendTexts(socket, {"1.0", request[1], admitted ? "200" : "400", admitted ? "OK" : "refused", "", ""});
  }
}

}  // namespace sluice::transport
