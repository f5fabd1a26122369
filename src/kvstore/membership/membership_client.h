// A node's side of membership: joining, heartbeats, who is alive, and being told to stop. Workers and servers
// both hold one inside their machine and pass it what concerns it. docs/design/protocol.md, "Joining" and
// "Barriers, leaving, dying".
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "transport/transport.h"

namespace sluice::membership {

struct Options {
  wire::Role role = wire::Role::kWorker;
  uint64_t job = 0;
  uint64_t incarnation = 0;
  std::string scheduler_address;
  std::string identity;
  int requested_rank = -1;
  std::string host;
  uint32_t pid = 0;
  uint32_t num_workers = 1;
  uint32_t num_servers = 1;
  std::vector<std::string> shard_addresses;  // of a server whose threads run already
  uint32_t server_threads = 0;               // of a server: as somebody has set it; 0: nobody has
  uint32_t offered_server_threads = 1;       // of a server: what it would take by itself
  Duration heartbeat_interval = 1s;
  Duration heartbeat_timeout = 10s;
  Duration rendezvous_timeout = std::chrono::minutes(10);
  bool says_missing = true;  // in the log, while the job is not complete; false: a launcher says it
  std::function<void()> on_asked_to_end;  // once, when a worker of the job was asked to end; may be null
};

enum class State : uint8_t {
  kJoining,  // registering
  kMember,   // the job is complete and runs
  kStopped,  // the scheduler said stop, or joining or the scheduler failed: stop() says which
};

class Client {
 public:
  explicit Client(Options options)
      : options_(std::move(options)), shard_addresses_(options_.shard_addresses) {}

  void OnStart(Time now, transport::Network& network);
  // True when the message was membership's and has been dealt with. The caller compares state() and epoch()
  // before and after.
  bool OnMessage(Time now, transport::PeerId from, const wire::Message& message, transport::Network& network);
  void OnRefused(transport::PeerId peer);
  void OnTimer(Time now, transport::Network& network);
  Time NextTimer() const;

  State state() const { return state_; }
  // Key-owning threads of each server of this job; 0 until the scheduler has decided.
  uint32_t server_threads() const { return server_threads_; }
  // A server tells the scheduler its addresses once its threads run.
  void SetShardAddresses(Time now, std::vector<std::string> addresses, transport::Network& network);
  const std::optional<wire::Stop>& stop() const { return stop_; }
  // Whether stop() is the scheduler's word, and not what this process has found out by itself.
  bool told_to_stop() const { return told_to_stop_; }
  uint32_t rank() const { return rank_; }
  uint64_t epoch() const { return epoch_; }
  const std::vector<wire::NodeInfo>& roster() const {
    return roster_;
  }  // servers and workers, by role and rank
  // Nodes found dead so far, the scheduler among them. Goes on counting when stopped.
  size_t NumDead() const;
  std::string Missing() const { return missing_; }  // while joining: who has not come

  transport::PeerId scheduler() const { return scheduler_; }
  // The scheduler counts on this node, as far as is known here, and would miss it.
  bool IsRegistered() const { return welcomed_ && !scheduler_is_dead_; }
  // A message of this node, with the envelope's fields filled in.
  wire::Message Make(wire::Body body, uint64_t id = 0, uint64_t in_reply_to = 0) const;
  // This worker was asked to end (SIGTERM): the scheduler hears it now and with every heartbeat.
  void AskToEnd(transport::Network& network);
  // From here on silence is expected: no more heartbeats and no complaints.
  void Leave() { leaving_ = true; }
  const Options& options() const { return options_; }
  std::string Describe(Time now) const;

 private:
  void SendRegister(Time now, transport::Network& network, uint64_t challenge = 0);
  void OnWelcome(const wire::Welcome& welcome, uint64_t epoch);
  void Adopt(const std::vector<wire::NodeInfo>& roster, uint64_t epoch);  // when it is news
  void ReportMissing(Time now);
  void Fail(std::string message);
  std::string SchedulerText() const;
  std::string MembershipText() const;  // "3 alive, 1 finished, dead: worker 1"

  const Options options_;
  transport::PeerId scheduler_;
  State state_ = State::kJoining;
  std::optional<wire::Stop> stop_;
  bool told_to_stop_ = false;
  bool leaving_ = false;
  bool asks_to_end_ = false;
  bool asked_to_end_ = false;  // and on_asked_to_end was called
  bool heard_ = false;         // anything from the scheduler, ever
  bool welcomed_ = false;
  bool scheduler_is_dead_ = false;
  uint32_t rank_ = 0;
  uint32_t server_threads_ = 0;
  std::vector<std::string> shard_addresses_;
  uint64_t epoch_ = 0;
  std::vector<wire::NodeInfo> roster_;
  std::string missing_;
  Duration report_pause_ = std::chrono::seconds(10);
  Time started_{}, last_heard_{}, next_register_{}, next_heartbeat_{}, next_report_{};
};

}  // namespace sluice::membership
