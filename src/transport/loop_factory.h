// Makes loops over the real network. Whoever runs a node uses this header, and names no transport:
// loop_factory.cc alone chooses one.
#pragma once

#include <memory>
#include <string>

#include "transport/thread_loop.h"
#include "transport/transport_choice.h"

namespace sluice::transport {

struct LoopFactoryOptions {
  TransportChoice transport = TransportChoice::kAuto;
  std::string job_id;
  std::string secret;  // at most 200 bytes; when empty, the job id alone admits peers
  int io_threads = 1;  // threads that move bytes for all loops of the factory
};

// What the loops of one process share. Thread-safe. The loops that it has made keep alive what they need.
class LoopFactory {
 public:
  virtual ~LoopFactory() = default;
  // Binds the loop's addresses, then starts its thread, which drives `machine`. Throws Error; where an
  // address cannot be bound, the error names it.
  virtual std::unique_ptr<ThreadLoop> Start(std::shared_ptr<StateMachine> machine, LoopOptions options) = 0;
};

// Throws Error: kInvalidArgument when the id or the secret is too long, kResourceExhausted when the system
// refuses memory, descriptors or threads.
std::shared_ptr<LoopFactory> MakeLoopFactory(const LoopFactoryOptions& options);

}  // namespace sluice::transport
