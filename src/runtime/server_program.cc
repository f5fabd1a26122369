#include "runtime/server_program.h"

#include <cstdlib>

#include "base/log.h"
#include "base/strings.h"
#include "base/threads.h"
#include "runtime/process.h"
#include "sluice/error.h"

namespace sluice::runtime {
namespace {

// Added to the timeout, so that the control machine's own deadline comes first: its message says more.
constexpr Duration kGrace = 5s;
constexpr Duration kPatience = 10s;

}  // namespace

ServerProgram::ServerProgram(const JobConfig& config, std::shared_ptr<server::Control> control,
                             transport::Loop& loop, std::function<void(ServerNode&)> program)
    : config_(config), control_(std::move(control)), loop_(loop) {
  thread_ = StartThread("the server's program", [this, program = std::move(program)] {
    Run(program);
    returned_.set_value();
  });
}

ServerProgram::~ServerProgram() {
  if (end_.wait_for(kPatience) != std::future_status::ready) {
    LOG(ERROR) << WrapLogged(StrCat("the server's program still runs ", ToSeconds(kPatience),
                                    " s after the job has ended; the process ends without it"));
    std::_Exit(kExitFailed);  // a thread cannot be ended from outside
  }
  thread_.join();
}

void ServerProgram::Run(const std::function<void(ServerNode&)>& program) {
  const auto joined =
      OnLoop(config_.rendezvous_timeout, [this](Time, transport::Network&, server::Control::Then done) {
        control_->WhenJoined(std::move(done));
      });
  if (!joined || !joined->ok()) return;  // there is no job; the control machine reports why
  std::string failure = "something that is no std::exception was thrown";
  try {
    return program(*this);
  } catch (const std::exception& e) {
    failure = e.what();
  } catch (...) {
  }
  loop_.Post([control = control_, failure](Time now, transport::Network& network) {
    control->Fail(now, StrCat("the server's program failed: ", failure), network);
  });
}

std::optional<Status> ServerProgram::OnLoop(Duration timeout, Call call) const {
  const auto ended = std::make_shared<std::promise<Status>>();
  std::future<Status> end = ended->get_future();
  const bool taken = loop_.Post([call = std::move(call), ended](Time now, transport::Network& network) {
    call(now, network, [ended](const Status& status) { ended->set_value(status); });
  });
  if (!taken) return std::nullopt;
  if (end.wait_for(timeout + kGrace) != std::future_status::ready)
    return Fail(ErrorCode::kDeadlineExceeded, "the server's control machine did not answer");
  return end.get();
}

void ServerProgram::Barrier(BarrierGroup group, std::chrono::milliseconds timeout) {
  if (group == BarrierGroup::kWorkers)
    throw Error(ErrorCode::kInvalidArgument,
                "Barrier: a server is no member of kWorkers; use kServers or kAll");
  const Duration patience = Bounded(timeout == kDefaultTimeout ? config_.operation_timeout : timeout);
  const auto wire_group =
      group == BarrierGroup::kAll ? wire::Barrier::Group::kAll : wire::Barrier::Group::kServers;
  const auto status =
      OnLoop(patience, [=, this](Time now, transport::Network& network, server::Control::Then done) {
        control_->Barrier(now, wire_group, DeadlineOf(now, patience), std::move(done), network);
      });
  const Status outcome = status ? *status : Status(control_->EndedBecause());
  if (!outcome) throw Error(outcome.failure().code, outcome.failure().message);
}

int ServerProgram::NumDeadNodes() const {
  const auto dead = std::make_shared<size_t>(0);
  const auto count = [this, dead] { *dead = control_->NumDead(); };
  const auto status =
      OnLoop(kPatience, [count](Time, transport::Network&, const server::Control::Then& done) {
        count();
        done(Status::Ok());
      });
  if (!status) count();
  if (status && !status->ok()) throw Error(status->failure().code, status->failure().message);
  return static_cast<int>(*dead);
}

}  // namespace sluice::runtime
