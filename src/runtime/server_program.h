// The program that a server's owner lets run beside it (sluice/server.h: ServerOptions::program).
#pragma once

#include <future>
#include <memory>
#include <optional>
#include <thread>

#include "runtime/job_config.h"
#include "server/control.h"
#include "sluice/server.h"

namespace sluice::runtime {

class ServerProgram final : public ServerNode {
 public:
  // Starts `program` on a thread of its own once the job is complete. `loop` drives `control`.
  ServerProgram(const JobConfig& config, std::shared_ptr<server::Control> control, transport::Loop& loop,
                std::function<void(ServerNode&)> program);
  // Once the loop has ended. A program that does not return by itself within 10 s ends the process.
  ~ServerProgram() override;
  ServerProgram(const ServerProgram&) = delete;
  ServerProgram& operator=(const ServerProgram&) = delete;

  int rank() const override { return static_cast<int>(control_->rank()); }
  int num_workers() const override { return config_.num_workers; }
  int num_servers() const override { return config_.num_servers; }
  int NumDeadNodes() const override;
  void Barrier(BarrierGroup group, std::chrono::milliseconds timeout) override;

 private:
  using Call = std::function<void(Time now, transport::Network& network, server::Control::Then done)>;
  // Runs `call` on the loop and waits for its end. Empty: the loop has ended, and the machine is at rest.
  std::optional<Status> OnLoop(Duration timeout, Call call) const;
  void Run(const std::function<void(ServerNode&)>& program);

  const JobConfig config_;
  const std::shared_ptr<server::Control> control_;
  transport::Loop& loop_;
  std::promise<void> returned_;
  std::future<void> end_ = returned_.get_future();
  std::thread thread_;  // last: it uses all the others
};

}  // namespace sluice::runtime
