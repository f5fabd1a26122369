// The membership part of a node's machine: joins the job, sends
// heartbeats, detects the scheduler's death and follows the roster.
//
// The state goes from kJoining to kMember to kStopped, or from kJoining to kStopped, and never back;
// rosters of older epochs are ignored. The node's machine calls all methods on its loop's thread;
// the client itself has no clock, thread or socket.
#include "kvstore/membership/membership_client.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/log.h"
#include "base/strings.h"

namespace sluice::membership {
namespace {

constexpr Duration kRegisterInterval = 1s;
constexpr Duration kLongestReportPause = std::chrono::minutes(10);

uint32_t Milliseconds(Duration d) {
  return static_cast<uint32_t>(std::chrono::duration_cast<std::chrono::milliseconds>(d).count());
}

}  // namespace

std::string MembershipClient::SchedulerText() const {
  return StrCat("the scheduler at ", options_.scheduler_address,
                " (DMLC_PS_ROOT_URI and DMLC_PS_ROOT_PORT say where)");
}

wire::Message MembershipClient::Make(wire::Body body, uint64_t id, uint64_t in_reply_to) const {
  wire::Message message;
  message.job = options_.job;
  message.sender = {options_.role, rank_, options_.incarnation};
  message.id = id;
  message.in_reply_to = in_reply_to;
  message.epoch = epoch_;
  message.body = std::move(body);
  return message;
}

void MembershipClient::OnStart(Time now, transport::Network& network) {
  started_ = last_heard_ = now;
  next_heartbeat_ = now + options_.heartbeat_interval;
  next_report_ = now + report_pause_;
  scheduler_ = network.Connect(options_.scheduler_address);
  SendRegister(now, network);
}

void MembershipClient::SendRegister(Time now, transport::Network& network, uint64_t challenge) {
  const bool server = options_.role == wire::Role::kServer;
  next_register_ = now + kRegisterInterval;
  network.Send(scheduler_,
               Make(wire::Register{.role = options_.role,
                                   .identity = options_.identity,
                                   .requested_rank = options_.requested_rank,
                                   .host = options_.host,
                                   .pid = options_.pid,
                                   .num_workers = options_.num_workers,
                                   .num_servers = options_.num_servers,
                                   .shard_addresses = shard_addresses_,
                                   .server_threads = server ? options_.server_threads : 0,
                                   .default_server_threads = server ? options_.default_server_threads : 0,
                                   .heartbeat_ms = Milliseconds(options_.heartbeat_interval)},
                    0, challenge));
}

void MembershipClient::SetShardAddresses(Time now, std::vector<std::string> addresses,
                                         transport::Network& network) {
  shard_addresses_ = std::move(addresses);
  if (state_ == MemberState::kJoining) SendRegister(now, network);
}

void MembershipClient::OnWelcome(const wire::Welcome& welcome, uint64_t epoch) {
  if (state_ != MemberState::kJoining) return;
  welcomed_ = true;
  rank_ = welcome.rank;
  missing_ = welcome.missing;
  server_threads_ = welcome.server_threads;
  if (welcome.state == wire::Welcome::State::kWaiting) return;
  Adopt(welcome.roster, epoch);  // unless a later epoch's roster has overtaken it
  state_ = MemberState::kMember;
  VLOG(1) << "joined as " << wire::Name(options_.role) << ' ' << rank_ << ", membership epoch " << epoch_;
}

void MembershipClient::Adopt(const std::vector<wire::NodeInfo>& roster, uint64_t epoch) {
  if (epoch <= epoch_) return;
  epoch_ = epoch;
  roster_ = roster;
  VLOG(1) << "membership epoch " << epoch_ << ": " << MembershipText();
}

bool MembershipClient::OnMessage(Time now, transport::PeerId from, const wire::Message& message,
                                 transport::Network& network) {
  if (from != scheduler_ || message.sender.role != wire::Role::kScheduler) return false;
  last_heard_ = now;
  heard_ = true;
  if (const auto* welcome = std::get_if<wire::Welcome>(&message.body)) {
    OnWelcome(*welcome, message.epoch);
    // A Welcome with an id is a challenge: another process has the place
    // of this identity, and the scheduler asks whether this process lives.
    if (state_ == MemberState::kJoining && message.id != 0) SendRegister(now, network, message.id);
  } else if (const auto* ack = std::get_if<wire::HeartbeatAck>(&message.body)) {
    if (ack->asked_to_end && !std::exchange(end_announced_, true) && options_.on_asked_to_end)
      options_.on_asked_to_end();
    if (state_ == MemberState::kMember && message.epoch > epoch_)
      network.Send(scheduler_, Make(wire::GetMembership{}));
  } else if (const auto* membership = std::get_if<wire::Membership>(&message.body)) {
    Adopt(membership->roster, message.epoch);
  } else if (const auto* stop = std::get_if<wire::Stop>(&message.body)) {
    if (!stop->roster.empty()) Adopt(stop->roster, message.epoch);
    if (state_ == MemberState::kStopped) return true;
    stop_ = *stop;
    stopped_by_scheduler_ = true;
    state_ = MemberState::kStopped;
  } else if (const auto* error = std::get_if<wire::ErrorReply>(&message.body);
             error != nullptr && message.in_reply_to == 0 && state_ == MemberState::kJoining) {
    // kUnavailable: the job has failed, and the process that it failed by says why.
    stopped_by_scheduler_ = error->code == ErrorCode::kUnavailable;
    Fail(StrCat("could not join the job: ", error->message));
  } else {
    return false;
  }
  return true;
}

void MembershipClient::OnRefused(transport::PeerId peer) {
  if (peer != scheduler_ || state_ != MemberState::kJoining) return;
  Fail(StrCat(SchedulerText(),
              " refuses this process: its job id or secret is another one (SLUICE_JOB_ID, "
              "SLUICE_JOB_SECRET)"));
}

void MembershipClient::AskToEnd(transport::Network& network) {
  was_signalled_ = true;
  if (state_ == MemberState::kMember && !leaving_)
    network.Send(scheduler_, Make(wire::Heartbeat{was_signalled_}));
}

void MembershipClient::OnTimer(Time now, transport::Network& network) {
  if (state_ == MemberState::kStopped || leaving_) return;
  if (state_ == MemberState::kJoining && now - started_ >= options_.rendezvous_timeout) {
    const auto seconds = ToSeconds(options_.rendezvous_timeout);
    return Fail(
        heard_
            ? StrCat("the job was not complete after ", seconds, " s: still missing ", missing_,
                     "; SLUICE_RENDEZVOUS_TIMEOUT sets the limit")
            : StrCat("no answer from ", SchedulerText(), " after ", seconds,
                     " s: is it running, and does this process have the job's secret (SLUICE_JOB_SECRET)?"));
  }
  if (heard_ && now - last_heard_ >= options_.heartbeat_timeout) {
    scheduler_is_dead_ = true;
    network.Disconnect(scheduler_);
    return Fail(StrCat(SchedulerText(), " has been silent for ",
                       std::round(10 * ToSeconds(now - last_heard_)) / 10,
                       " s (PS_HEARTBEAT_TIMEOUT): it is dead or unreachable, and the job with it"));
  }
  if (state_ == MemberState::kJoining && now >= next_report_) ReportMissing(now);
  if (state_ == MemberState::kJoining && now >= next_register_) SendRegister(now, network);
  if (now >= next_heartbeat_) {
    next_heartbeat_ = now + options_.heartbeat_interval;
    network.Send(scheduler_, Make(wire::Heartbeat{was_signalled_}));
  }
}

// Without any answer, the node logs a warning every ten seconds: something is wrong. Once it has been
// answered, it waits for other nodes, which may take their time, at growing intervals up to ten minutes.
void MembershipClient::ReportMissing(Time now) {
  if (!heard_) {
    LOG(WARNING) << WrapLogged("no answer yet from " + SchedulerText());
  } else {
    report_pause_ = std::min(2 * report_pause_, kLongestReportPause);
    if (options_.logs_missing && !missing_.empty()) {
      LOG(INFO) << WrapLogged(StrCat("waiting for ", missing_, " to join, for ",
                                     std::llround(ToSeconds(now - started_)), " s so far; gives up after ",
                                     ToSeconds(options_.rendezvous_timeout),
                                     " s (SLUICE_RENDEZVOUS_TIMEOUT)"));
    }
  }
  next_report_ = now + report_pause_;
}

Time MembershipClient::NextTimer() const {
  if (state_ == MemberState::kStopped || leaving_) return Time::max();
  Time next = next_heartbeat_;
  if (heard_) next = std::min(next, last_heard_ + options_.heartbeat_timeout);
  if (state_ == MemberState::kJoining)
    next = std::min({next, next_register_, next_report_, started_ + options_.rendezvous_timeout});
  return next;
}

void MembershipClient::Fail(std::string message) {
  stop_ = wire::Stop{wire::Stop::Reason::kFailed, std::move(message)};
  state_ = MemberState::kStopped;
}

size_t MembershipClient::NumDead() const {
  const auto dead = std::count_if(roster_.begin(), roster_.end(), [](const wire::NodeInfo& node) {
    return node.state == wire::NodeState::kDead;
  });
  return static_cast<size_t>(dead) + (scheduler_is_dead_ ? 1 : 0);
}

std::string MembershipClient::MembershipText() const {
  size_t finished = 0;
  std::vector<std::string> dead;
  for (const wire::NodeInfo& node : roster_) {
    if (node.state == wire::NodeState::kFinished) ++finished;
    if (node.state == wire::NodeState::kDead) dead.push_back(StrCat(wire::Name(node.role), " ", node.rank));
  }
  return StrCat(roster_.size() - finished - dead.size(), " alive, ", finished,
                " finished, dead: ", dead.empty() ? "none" : StrJoin(dead));
}

std::string MembershipClient::Describe(Time now) const {
  constexpr const char* kStates[] = {"joining", "member", "stopped"};
  std::string text = StrCat(wire::Name(options_.role), " ", rank_, ": ", kStates[static_cast<int>(state_)],
                            ", epoch ", epoch_, ", ", NumDead(), " dead, heard from the scheduler ",
                            ToSeconds(now - last_heard_), " s ago");
  if (state_ == MemberState::kJoining)
    text += StrCat(", waiting for ", missing_.empty() ? SchedulerText() : missing_);
  return text + "\n";
}

}  // namespace sluice::membership
