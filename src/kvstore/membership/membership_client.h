// A node's side of membership: joining, heartbeats, the roster, and the end of the job. Workers and
// servers each own one inside their machine, pass it the messages and timers that concern it, and
// call it on their loop's thread. docs/design/protocol.md, "Joining" and "Barriers, leaving, dying".
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
  std::vector<std::string> shard_addresses;  // a server's, if its threads run already
  uint32_t server_threads = 0;               // servers: configured key-owning threads; 0: not configured
  uint32_t default_server_threads = 1;       // servers: the number that this server offers
  Duration heartbeat_interval = 1s;
  Duration heartbeat_timeout = 10s;
  Duration rendezvous_timeout = std::chrono::minutes(10);
  // Whether missing nodes are logged while the job is not complete; false when a launcher reports them.
  bool logs_missing = true;
  // Called once, when a worker of the job was asked to end; may be null.
  std::function<void()> on_asked_to_end;
};

enum class MemberState : uint8_t {
  kJoining,  // the node repeats its Register
  kMember,   // the job is complete and runs
  // The scheduler sent a Stop, joining failed, or the scheduler is silent; stop() says which.
  kStopped,
};

class MembershipClient {
 public:
  explicit MembershipClient(Options options)
      : options_(std::move(options)), shard_addresses_(options_.shard_addresses) {}

  // Connects to the scheduler and sends the first Register.
  void OnStart(Time now, transport::Network& network);
  // Returns true when the message belonged to membership and has been
  // handled. The caller compares state() and epoch() before and after.
  bool OnMessage(Time now, transport::PeerId from, const wire::Message& message, transport::Network& network);
  // Called when `peer` rejects this process's job id or secret.
  // While joining, a rejection by the scheduler ends the node.
  void OnRefused(transport::PeerId peer);
  void OnTimer(Time now, transport::Network& network);
  Time NextTimer() const;

  MemberState state() const { return state_; }
  // The number of key-owning threads of each server of this job; 0 until the scheduler has decided.
  uint32_t server_threads() const { return server_threads_; }
  // Sends a server's addresses to the scheduler, once its threads run.
  void SetShardAddresses(Time now, std::vector<std::string> addresses, transport::Network& network);
  const std::optional<wire::Stop>& stop() const { return stop_; }
  // True when stop() is the scheduler's, or says that the job had failed before this process came; false when
  // this process detected the failure itself.
  bool stopped_by_scheduler() const { return stopped_by_scheduler_; }
  uint32_t rank() const { return rank_; }
  uint64_t epoch() const { return epoch_; }
  // Servers and workers, by role and rank.
  const std::vector<wire::NodeInfo>& roster() const { return roster_; }
  // The number of dead nodes that this node knows of, the
  // scheduler included. It goes on counting after the end.
  size_t NumDead() const;
  std::string Missing() const { return missing_; }  // while joining: the nodes that have not joined yet

  transport::PeerId scheduler() const { return scheduler_; }
  // True when the scheduler has registered this node and is not known to be dead: it
  // would then report the node as dead if the node ended without a leave message.
  bool IsRegistered() const { return welcomed_ && !scheduler_is_dead_; }
  // A message from this node, with the fields of the envelope filled in.
  wire::Message Make(wire::Body body, uint64_t id = 0, uint64_t in_reply_to = 0) const;
  // Call it when this worker was asked to end (SIGTERM): the
  // scheduler is notified at once and with every heartbeat.
  void AskToEnd(transport::Network& network);
  // Call it before the node leaves: no heartbeats are sent
  // any more, and silence of the scheduler is not reported.
  void Leave() { leaving_ = true; }
  const Options& options() const { return options_; }
  std::string Describe(Time now) const;

 private:
  void SendRegister(Time now, transport::Network& network, uint64_t challenge = 0);
  void OnWelcome(const wire::Welcome& welcome, uint64_t epoch);
  // Takes over `roster` if its epoch is newer.
  void Adopt(const std::vector<wire::NodeInfo>& roster, uint64_t epoch);
  void ReportMissing(Time now);
  void Fail(std::string message);
  std::string SchedulerText() const;
  std::string MembershipText() const;  // "3 alive, 1 finished, dead: worker 1"

  const Options options_;
  transport::PeerId scheduler_;
  MemberState state_ = MemberState::kJoining;
  std::optional<wire::Stop> stop_;
  bool stopped_by_scheduler_ = false;
  bool leaving_ = false;
  bool was_signalled_ = false;
  bool end_announced_ = false;  // a worker was asked to end, and on_asked_to_end was called
  bool heard_ = false;          // whether the scheduler has ever sent anything
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
