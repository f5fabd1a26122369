// Runs the same tests over every transport: each fabric starts loops of one kind.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/strings.h"
#include "transport/shm/shared_memory.h"
#include "transport/sim/sim_network.h"
#include "transport/zmq/loop.h"
#include "unit/transport/script_machine.h"

namespace sluice::transport::testing {

// Polls `done` for up to 30 s. For conditions that touch no probe, such as counters.
inline bool Eventually(const std::function<bool()>& done) {
  const Time deadline = SteadyClock().Now() + 30s;
  while (!done()) {
    if (SteadyClock().Now() >= deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

class SimFabric {
 public:
  Loop& Start(const std::string& name, std::shared_ptr<ScriptMachine> machine) {
    return sim_.Start(name, std::move(machine));
  }
  Loop& StartBound(const std::string& name, std::shared_ptr<ScriptMachine> machine) {
    return Start(name, std::move(machine));
  }
  // Runs the simulation until `done`, at most 100 s of virtual time.
  bool Until(const std::function<bool()>& done) { return sim_.RunUntil(done, sim_.now() + 100s); }
  void StopAll() {}

 private:
  SimNetwork sim_{SimOptions{}};
};

// `address` is what StartBound binds loops to. `heap` is the shared heap of all loops whose
// options have none.
class ZmqFabric {
 public:
  explicit ZmqFabric(std::string address, std::shared_ptr<SharedHeap> heap = nullptr)
      : address_(std::move(address)), heap_(std::move(heap)) {}

  Loop& Start(const std::string& name, std::shared_ptr<ScriptMachine> machine, LoopOptions options = {}) {
    options.name = name;
    options.job = kJob;
    if (!options.share_payloads) options.share_payloads = SharePayloadsOf(heap_);
    auto user = std::exchange(machine->after_call, nullptr);
    machine->after_call = [this, user] {
      if (user) user();
      probe_.Touch();
    };
    loops_.push_back(std::make_unique<ZmqLoop>(context_, std::move(machine), std::move(options)));
    return *loops_.back();
  }
  Loop& StartBound(const std::string& name, std::shared_ptr<ScriptMachine> machine,
                   LoopOptions options = {}) {
    options.bind = {address_};
    return Start(name, std::move(machine), std::move(options));
  }
  bool Until(const std::function<bool()>& done) { return probe_.Await(30s, done); }
  void Touch() { probe_.Touch(); }
  const std::shared_ptr<ZmqContext>& context() { return context_; }
  ZmqLoop& loop(size_t index) { return *loops_[index]; }
  const std::string& address() const { return address_; }
  void StopLast() { loops_.pop_back(); }
  // Every test calls this last, because its machines use its local variables.
  void StopAll() { loops_.clear(); }
  // Waits until ZeroMQ's threads have ended. Call it after StopAll.
  void CloseContext() { context_.reset(); }

 private:
  const std::string address_;
  const std::shared_ptr<SharedHeap> heap_;
  Probe probe_;
  std::shared_ptr<ZmqContext> context_ =
      std::make_shared<ZmqContext>(ZmqContextOptions{.job_id = "test", .secret = "open sesame"});
  std::vector<std::unique_ptr<ZmqLoop>> loops_;
};

class TcpFabric : public ZmqFabric {
 public:
  TcpFabric() : ZmqFabric("tcp://127.0.0.1:0") {}
};
class Tcp6Fabric : public ZmqFabric {
 public:
  Tcp6Fabric() : ZmqFabric("tcp://[::1]:0") {}
};
class IpcFabric : public ZmqFabric {
 public:
  IpcFabric() : ZmqFabric(Address()) {}

 private:
  static std::string Address() {
    static std::atomic<int> count = 0;
    return StrCat("ipc://@sluice-test-", getpid(), "-", count++);
  }
};

// The loops share memory: once a link exists between two of them, payloads are leased instead of copied.
class ShmFabric : public ZmqFabric {
 public:
  ShmFabric()
      : ZmqFabric("tcp://127.0.0.1:0", std::make_shared<SharedHeap>(SharedHeap::Options{
                                           .segment_bytes = 1 << 20, .min_leased_bytes = 1})) {}
};

}  // namespace sluice::transport::testing
