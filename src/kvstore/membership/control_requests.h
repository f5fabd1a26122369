// Requests to the scheduler or a shard that concern no key. They are repeated until they are
// answered, and fail at their deadline with a message that names the nodes they wait for. A
// node's machine owns one object beside its MembershipClient and calls it on its loop's thread.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/inline_function.h"
#include "base/result.h"
#include "kvstore/membership/membership_client.h"
#include "kvstore/membership/wait_reports.h"

namespace sluice::membership {

class ControlRequests {
 public:
  // Receives the answer, or the reason why there will be none. It is called once for each
  // request: the methods below append it to `ended` as a Completion, which the machine then runs.
  using Done = std::function<void(Time now, transport::Network& network, const Result<wire::Body>& answer)>;
  // It has inline room for the completion of a worker's operation with its result.
  using Completion = InlineFunction<void(Time now, transport::Network& network), 112>;

  struct Request {
    transport::PeerId to;
    wire::Body body;
    std::string what;  // for messages: "barrier 'x'"
    Time deadline;
    Done done;
    std::string whom = {};  // the nodes that the request waits for; empty: the scheduler
    Duration repeat = 1s;
  };

  // Sends the request as message `id`, which no other open request may have.
  void Ask(Time now, uint64_t id, Request request, const MembershipClient& self, transport::Network& network);
  // Returns true when the message answers an open request. A request that it ends is appended to `ended`.
  bool OnAnswer(const wire::Message& message, std::vector<Completion>* ended);
  // Ends the requests whose deadlines have passed, with kDeadlineExceeded.
  void Expire(Time now, std::vector<Completion>* ended);
  void FailAll(const Failure& failure, std::vector<Completion>* ended);
  void Repeat(Time now, const MembershipClient& self, transport::Network& network);
  Time NextTimer() const;
  // Adds all open requests to `reports`, each with the nodes that it waits for.
  void AddTo(WaitReports* reports, Time now) const;
  std::string Describe() const;  // one line for each open request

 private:
  struct Unanswered {
    const std::string& whom() const { return waiting_for.empty() ? request.whom : waiting_for; }

    Request request;
    Time asked, next_repeat;
    std::string waiting_for;  // the nodes that the last StillWaiting named
  };
  static Completion End(Done done, Result<wire::Body> answer);

  std::map<uint64_t, Unanswered> unanswered_;  // by message id
};

// The id of a node's `number`-th barrier of all workers
// and servers. Workers and servers must form the same ids.
std::string IdOfBarrierOfAll(uint64_t number);

}  // namespace sluice::membership
