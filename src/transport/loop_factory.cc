#include "transport/loop_factory.h"

#include <utility>

#include "sluice/error.h"
#include "transport/zmq/context.h"
#include "transport/zmq/loop.h"

namespace sluice::transport {
namespace {

class ZmqLoopFactory final : public LoopFactory {
 public:
  explicit ZmqLoopFactory(const LoopFactoryOptions& options)
      : context_(std::make_shared<ZmqContext>(
            ZmqContextOptions{options.job_id, options.secret, options.io_threads})) {}

  std::unique_ptr<ThreadLoop> Start(std::shared_ptr<StateMachine> machine, LoopOptions options) override {
    return std::make_unique<ZmqLoop>(context_, std::move(machine), std::move(options));
  }

 private:
  const std::shared_ptr<ZmqContext> context_;
};

}  // namespace

std::shared_ptr<LoopFactory> MakeLoopFactory(const LoopFactoryOptions& options) {
  switch (options.transport) {
    // An address names its socket: tcp://... or ipc://... Shared memory carries the payloads of any
    // transport.
    case TransportChoice::kAuto:
    case TransportChoice::kTcp:
    case TransportChoice::kIpc:
    case TransportChoice::kShm:
      return std::make_shared<ZmqLoopFactory>(options);
  }
  throw Error(ErrorCode::kInvalidArgument, "no loops carry this transport");
}

}  // namespace sluice::transport
