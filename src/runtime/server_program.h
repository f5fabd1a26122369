// The program that runs beside a server, in the same process (sluice/server.h:
// ServerOptions::program). Its public methods are thread-safe.
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
  // Starts a thread, which runs `program` once the job is
  // complete. `loop` drives `control`. Both outlive the object.
  ServerProgram(const JobConfig& config, std::shared_ptr<server::Control> control, transport::Loop& loop,
                std::function<void(ServerNode&)> program);
  // Destroy it after the loop has ended. If `program` does not
  // return within 10 s, the process ends with kExitFailed.
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
  // Runs `call` on the loop and waits until it calls `done`; fails with kDeadlineExceeded 5 s after
  // `timeout`. Returns nullopt when the loop has ended; no other thread changes the machine then.
  std::optional<Status> OnLoop(Duration timeout, Call call) const;
  void Run(const std::function<void(ServerNode&)>& program);

  const JobConfig config_;
  const std::shared_ptr<server::Control> control_;
  transport::Loop& loop_;
  std::promise<void> returned_;
  std::future<void> end_ = returned_.get_future();
  std::thread thread_;  // last, because it uses all other members
};

}  // namespace sluice::runtime
