#include "kvstore/membership/control_requests.h"

#include <algorithm>

#include "base/strings.h"

namespace sluice::membership {

std::string IdOfBarrierOfAll(uint64_t number) {
  return StrCat("of all nodes, ", number);
}

ControlRequests::Completion ControlRequests::End(Done done, Result<wire::Body> answer) {
  return [done = std::move(done), answer = std::move(answer)](Time now, transport::Network& network) {
    done(now, network, answer);
  };
}

void ControlRequests::Ask(Time now, uint64_t id, Request request, const MembershipClient& self,
                          transport::Network& network) {
  network.Send(request.to, self.Make(request.body, id));
  const Duration repeat = request.repeat;
  if (request.whom.empty()) request.whom = StrCat("the scheduler at ", self.options().scheduler_address);
  unanswered_.emplace(id, Unanswered{std::move(request), now, now + repeat, {}});
}

bool ControlRequests::OnAnswer(const wire::Message& message, std::vector<Completion>* ended) {
  const auto it = unanswered_.find(message.in_reply_to);
  if (it == unanswered_.end()) return false;
  if (const auto* waiting = std::get_if<wire::StillWaiting>(&message.body)) {
    it->second.waiting_for = waiting->missing;
    return true;
  }
  Done done = std::move(it->second.request.done);
  unanswered_.erase(it);
  const auto* error = std::get_if<wire::ErrorReply>(&message.body);
  ended->push_back(End(std::move(done), error ? Result<wire::Body>(Failure{error->code, error->message})
                                              : Result<wire::Body>(message.body)));
  return true;
}

void ControlRequests::Expire(Time now, std::vector<Completion>* ended) {
  for (auto& [id, open] : unanswered_) {
    if (now < open.request.deadline) continue;
    ended->push_back(End(
        std::exchange(open.request.done, nullptr),
        Fail(ErrorCode::kDeadlineExceeded, open.request.what, " was not done by its deadline: waiting for ",
             open.whom(), LimitText(open.asked, open.request.deadline))));
  }
  std::erase_if(unanswered_, [](const auto& entry) { return entry.second.request.done == nullptr; });
}

void ControlRequests::FailAll(const Failure& failure, std::vector<Completion>* ended) {
  for (auto& [id, open] : unanswered_) ended->push_back(End(std::move(open.request.done), failure));
  unanswered_.clear();
}

void ControlRequests::Repeat(Time now, const MembershipClient& self, transport::Network& network) {
  for (auto& [id, open] : unanswered_) {
    if (now < open.next_repeat) continue;
    open.next_repeat = now + open.request.repeat;
    network.Send(open.request.to, self.Make(open.request.body, id));
  }
}

Time ControlRequests::NextTimer() const {
  Time next = Time::max();
  for (const auto& [id, open] : unanswered_) next = std::min({next, open.request.deadline, open.next_repeat});
  return next;
}

void ControlRequests::AddTo(WaitReports* reports, Time now) const {
  for (const auto& [id, open] : unanswered_)
    reports->Add(now, open.whom(), open.asked, open.request.deadline,
                 [&request = open.request] { return request.what; });
}

std::string ControlRequests::Describe() const {
  std::string text;
  for (const auto& [id, open] : unanswered_) {
    text += StrCat("  ", open.request.what,
                   open.waiting_for.empty() ? "" : ": waiting for " + open.waiting_for, "\n");
  }
  return text;
}

}  // namespace sluice::membership
