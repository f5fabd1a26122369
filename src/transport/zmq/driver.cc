// The loop's thread and the calls that may replace it. RunOnce is one pass: posted tasks, OnRoom, the timer,
// the sockets, shared memory, connections. Run repeats it on the loop's thread; DriveUntil does so on a
// caller's thread, and PostOrRun runs only the tasks there. Invariants: the machine and the sockets are used
// only by the thread that holds lock_, which the loop's thread releases only to sleep. An exception in a
// caller's thread is kept in caller_exception_ and ends the loop on the loop's own thread. ZmqLoop is the
// only user.
#include "transport/zmq/driver.h"

#include <algorithm>

#include "base/executor.h"
#include "base/limits.h"
#include "base/strings.h"
#include "base/threads.h"

namespace sluice::transport {
namespace {

// How long the sockets of a failed loop linger for the messages that its machine sends at the end.
constexpr Duration kFailureLinger = 500ms;

}  // namespace

ZmqDriver::ZmqDriver(std::shared_ptr<ZmqContext> context, std::shared_ptr<StateMachine> machine,
                     LoopOptions options)
    : loop_{std::move(options), std::move(context), std::move(machine), *this,
            std::make_shared<Wakeup>([this] { poll_set_.loop_poller().Wake(); })},
      peers_(loop_.room_wakeup),
      acceptor_(loop_, peers_, [this](PeerId peer) { OnGone(peer); }),
      sharing_(loop_.options.share_payloads ? loop_.options.share_payloads(acceptor_.bound(), loop_.memory)
                                            : nullptr),
      connector_(loop_, peers_, poll_set_),
      sender_(loop_, peers_, sharing_.get()),
      memory_exchange_(loop_, peers_, sender_, poll_set_, sharing_.get()),
      receiver_(loop_, acceptor_, sender_, memory_exchange_) {
  thread_ = StartThread(loop_.options.name, [this] { ThreadMain(); });
}

ZmqDriver::~ZmqDriver() {
  Stop();
}

void ZmqDriver::Stop() {
  stop_ = true;
  poll_set_.caller_poller().Wake();
  poll_set_.loop_poller().Wake();
  // Every caller returns when the thread has ended; one of them joins it.
  std::call_once(joined_, [this] { thread_.join(); });
}

PeerId ZmqDriver::Connect(const std::string& address) {
  const PeerId peer = connector_.Connect(address);
  memory_exchange_.OnConnect(peer);
  return peer;
}

void ZmqDriver::Disconnect(PeerId id) {
  if (connector_.Disconnect(id)) OnGone(id);
}

void ZmqDriver::OnGone(PeerId peer) {
  sender_.OnGone(peer);
  if (sharing_) sharing_->Forget(peer);
}

bool ZmqDriver::Post(Loop::Task&& task) {
  RequireNotForkedChild("the job cannot be reached");
  const TaskQueue::Posted posted = tasks_.Post(std::move(task));
  if (posted.is_first && sleeping_) poll_set_.loop_poller().Wake();
  return posted.taken;
}

bool ZmqDriver::PostOrRun(Loop::Task&& task) {
  RequireNotForkedChild("the job cannot be reached");  // the sockets are the parent's
  if (!lock_.TryLock()) return Post(std::move(task));
  if (!up_) {
    lock_.Unlock();
    return Post(std::move(task));
  }
  bool ran = false;
  try {
    if (caller_exception_ == nullptr) {
      tasks_.RunAll(*this);
      ran = true;
      task(LoopResources::Now(), *this);
    }
  } catch (...) {
    caller_exception_ = std::current_exception();
  }
  if (!ran) tasks_.Defer(std::move(task));
  UnlockLoop();
  return true;
}

void ZmqDriver::DriveUntil(const std::function<bool()>& done, Time deadline) {
  RequireNotForkedChild("the job cannot be reached");
  if (!lock_.TryLock()) return;
  if (caller_drives_ || !up_) return lock_.Unlock();
  caller_drives_ = true;
  Poller& caller_poller = poll_set_.caller_poller();
  try {
    while (up_ && !stop_ && caller_exception_ == nullptr && !done() && LoopResources::Now() < deadline) {
      RunOnce();
      if (loop_.machine->Done()) break;
      if (!poll_set_.Idle()) {
        poll_set_.PollBusy(&caller_poller);
        continue;
      }
      if (done()) continue;
      SetAlarm();
      caller_poller.SetAlarm(deadline);
      SleepOn(&caller_poller);
    }
  } catch (...) {
    caller_exception_ = std::current_exception();
  }
  caller_drives_ = false;
  up_ ? UnlockLoop() : lock_.Unlock();
}

// A socket that was used may have something to read that its descriptor does not signal again (see the
// header), so each one is asked before lock_ is released, and the loop's thread is woken if there is work.
void ZmqDriver::UnlockLoop() {
  const bool has_work = poll_set_.HasWork();
  const bool wake = has_work || stop_ || caller_exception_ != nullptr || loop_.machine->Done();
  SetAlarm();
  const bool caller_drives = caller_drives_;
  lock_.Unlock();
  if (wake) poll_set_.loop_poller().Wake();
  if (caller_drives) poll_set_.caller_poller().Wake();
}

bool ZmqDriver::Join(Duration timeout) {
  return outcome_.Await(
      timeout, [](const Outcome& outcome) { return outcome.ended; },
      [](Outcome&, bool ended) { return ended; });
}

std::string ZmqDriver::failure() const {
  return outcome_.With([](const Outcome& outcome) { return outcome.failure; });
}

ZmqCounters ZmqDriver::counters() const {
  const auto get = [](const std::atomic<uint64_t>& n) { return n.load(std::memory_order_relaxed); };
  const AtomicCounters& all = loop_.counters;
  ZmqCounters counters{.sent = get(all.sent),
                       .received = get(all.received),
                       .overflowed = get(all.overflowed),
                       .unreachable = get(all.unreachable),
                       .bad = get(all.bad),
                       .muted = get(all.muted),
                       .thrown_away = get(all.thrown_away),
                       .cut = get(all.cut),
                       .forgotten = get(all.forgotten)};
  if (!sharing_) return counters;
  counters.leased = get(sharing_->counters().leased);
  counters.leased_copies = get(sharing_->counters().copied);
  counters.leases_opened = get(sharing_->counters().leases_opened);
  return counters;
}

void ZmqDriver::ThreadMain() {
  BlockSignals();
  SetThreadName(loop_.options.name);
  lock_.Lock();
  std::string failure;
  try {
    loop_.machine->OnStart(LoopResources::Now(), *this);
    up_ = true;
    Run();
  } catch (const std::exception& e) {
    failure = WithLimits(e);
  } catch (...) {
    failure = "something was thrown that is no std::exception";
  }
  if (!failure.empty()) LOG(ERROR) << WrapLogged(StrCat(loop_.options.name, " ends: ", failure));
  End(failure);
}

void ZmqDriver::Run() {
  while (!stop_) {
    if (caller_exception_ != nullptr) std::rethrow_exception(caller_exception_);
    RunOnce();
    if (loop_.machine->Done()) return;
    poll_set_.Idle() ? Sleep() : poll_set_.PollBusy(&poll_set_.loop_poller());
  }
}

void ZmqDriver::RunOnce() {
  tasks_.RunAll(*this);
  if (loop_.room_wakeup->TakeWoken()) sender_.ReportRoom();
  Time now = LoopResources::Now();
  if (loop_.machine->NextTimer() <= now) loop_.machine->OnTimer(now, *this);
  if (loop_.machine->Done()) return;
  poll_set_.Rebuild(acceptor_.router(), peers_, sharing_.get());
  for (PolledSocket* polled : poll_set_.sockets()) {
    if (!polled->drained) Read(polled, &now);
  }
  memory_exchange_.Read(acceptor_.bound());
  if (acceptor_.bound() && acceptor_.next_check() <= LoopResources::Now()) acceptor_.CheckConnections();
}

void ZmqDriver::Read(PolledSocket* polled, Time* now) {
  if (polled->is_monitor) return connector_.ReadMonitor(polled);
  receiver_.ReadBurst(polled, tasks_, now);
  loop_.machine->OnBurstEnd(*now, *this);
}

void ZmqDriver::Sleep() {
  // The caller's condition may have become true here.
  if (caller_drives_) poll_set_.caller_poller().Wake();
  SetAlarm();
  // Set before the last look at tasks_: a thread that posts later sees it and wakes this one.
  sleeping_ = true;
  if (!tasks_.waiting() && !stop_) SleepOn(&poll_set_.loop_poller());
  sleeping_ = false;
}

void ZmqDriver::SetAlarm() {
  poll_set_.loop_poller().SetAlarm(std::min(loop_.machine->NextTimer(), acceptor_.next_check()));
}

void ZmqDriver::SleepOn(Poller* poller) {
  lock_.Unlock();
  const int ready = poller->Sleep();
  lock_.Lock();
  poll_set_.MarkReady(poller, ready);
}

void ZmqDriver::End(const std::string& failure) {
  const bool in_order = failure.empty() && loop_.machine->Done();
  const Duration last_words = failure.empty() ? Duration::zero() : kFailureLinger;
  const Duration linger = in_order ? std::min(loop_.options.linger, loop_.machine->Linger()) : last_words;
  acceptor_.SetLinger(linger);
  connector_.SetLinger(linger);
  // OnEnd runs before Post refuses tasks, so a caller whose Post returns false finds the machine at rest.
  try {
    loop_.machine->OnEnd(LoopResources::Now(), failure.empty() ? "the loop has ended" : failure, *this);
  } catch (const std::exception& e) {  // for example, memory is still exhausted
    LOG(ERROR) << WrapLogged(StrCat(loop_.options.name, ", while it ends: ", WithLimits(e)));
  }
  if (!failure.empty() && loop_.options.on_failure) loop_.options.on_failure(failure);
  tasks_.Close();
  tasks_.RunAll(*this);
  poll_set_.Clear();
  peers_.Clear();
  acceptor_.Close();
  // Once a worker's loop has ended, its arrays may be written to, so its leases must have been returned. A
  // server's memory is not written to.
  if (sharing_ && in_order && loop_.options.bind.empty() && !sharing_->AwaitReturns(loop_.options.linger))
    LOG(WARNING) << loop_.options.name << " ends while memory of its own is still being read";
  up_ = false;
  loop_.room_wakeup->Detach();
  lock_.Unlock();
  poll_set_.caller_poller().Wake();
  outcome_.Notify([&](Outcome& outcome) {
    outcome.ended = true;
    outcome.failure = failure;
  });
}

}  // namespace sluice::transport
