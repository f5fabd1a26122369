// Requests that are about no key, to the scheduler or to a shard: repeated until they are answered, given up
// at their deadline with a message that says whom they wait for. Part of a node's machine, beside its
// membership::Client.
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
  // The answer, or why none will come. Once for each request, when the machine runs what is returned here.
  using Done = std::function<void(Time now, transport::Network& network, const Result<wire::Body>& answer)>;
  // With room for the end of a worker's operation and how it went.
  using Completion = InlineFunction<void(Time now, transport::Network& network), 112>;

  struct Request {
    transport::PeerId to;
    wire::Body body;
    std::string what;  // for messages: "barrier 'x'"
    Time deadline;
    Done done;
    std::string whom = {};  // is waited for; empty: the scheduler
    Duration repeat = 1s;
  };

  // `id` is the message's, and no other open request's.
  void Ask(Time now, uint64_t id, Request request, const Client& self, transport::Network& network);
  // True when the message is about one of the requests; one that it ends is appended to `ended`.
  bool OnAnswer(const wire::Message& message, std::vector<Completion>* ended);
  void Expire(Time now, std::vector<Completion>* ended);
  void FailAll(const Failure& failure, std::vector<Completion>* ended);
  void Repeat(Time now, const Client& self, transport::Network& network);
  Time NextTimer() const;
  // Those under way, with whom each waits for.
  void AddTo(WaitReports* reports, Time now) const;
  std::string Describe() const;  // one line for each

 private:
  struct Open {
    const std::string& whom() const { return waiting_for.empty() ? request.whom : waiting_for; }

    Request request;
    Time asked, next_repeat;
    std::string waiting_for;  // what was answered last
  };
  static Completion End(Done done, Result<wire::Body> answer);

  std::map<uint64_t, Open> open_;  // by message id
};

// What barriers of all workers and servers are called, the n-th of a node: nodes of both kinds must agree.
std::string IdOfBarrierOfAll(uint64_t number);

}  // namespace sluice::membership
