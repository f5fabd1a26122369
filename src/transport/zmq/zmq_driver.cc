// The loop's thread and the calls that may replace it. RunOnce is one pass: posted tasks, OnRoom, the timer,
// the sockets, shared memory, connections. Run repeats it on the loop's thread; DriveUntil does so on a
// caller's thread, and PostOrRun runs only the tasks there. Invariants: the machine and the sockets are used
// only by the thread that holds lock_, which the loop's thread releases only to sleep. An exception in a
// caller's thread is kept in caller_exception_ and ends the loop on the loop's own thread. ZmqLoop is the
// only user.
#include "transport/zmq/zmq_driver.h"

#include <algorithm>
#include <cerrno>

#include "base/executor.h"
#include "base/limits.h"
#include "base/strings.h"
#include "base/threads.h"
#include "sluice/error.h"
#include "wire/packing.h"

namespace sluice::transport {
namespace {

// Messages that are read from one channel before the other channels, the timer and posted tasks are served.
constexpr int kBurst = 32;
// Passes that end with work left, until all channels are polled again.
constexpr unsigned kBusyPasses = 4;
// How long the sockets of a failed loop linger for the messages that its machine sends at the end.
constexpr Duration kFailureLinger = 500ms;

}  // namespace

ZmqDriver::ZmqDriver(std::shared_ptr<ZmqContext> context, std::shared_ptr<Machine> machine,
                     ZmqLoopOptions options)
    : context_(std::move(context)),
      machine_(std::move(machine)),
      options_(std::move(options)),
      peer_table_(options_.max_gone_peers),
      chance_(options_.drop_seed) {
  Bind();
  if (options_.shared_heap)
    shared_ = std::make_unique<SharedMemory>(options_.shared_heap, router_ != nullptr, memory_);
  thread_ = StartThread(options_.name, [this] { ThreadMain(); });
}

ZmqDriver::~ZmqDriver() {
  Stop();
}

void ZmqDriver::Stop() {
  stop_ = true;
  caller_poller_.Wake();
  poller_.Wake();
  if (thread_.joinable()) thread_.join();
}

void ZmqDriver::Send(PeerId id, wire::Message message) {
  Peer* peer = Find(id);
  if (peer == nullptr || !peer->open) {
    ++counters_.unreachable;
    return;
  }
  VLOG(2) << options_.name << " to " << peer->name << ": " << wire::Describe(message);
  const uint64_t queued = peer->queue->bytes();
  if (queued > 0 && queued + wire::PayloadBytes(message) > options_.max_queued_bytes) {
    ++counters_.overflowed;
    return Warn(peer,
                StrCat(HumanBytes(queued),
                       " are queued for it, which its link or it itself takes more slowly "
                       "than they come; a message is dropped, and what was asked for is asked for again"));
  }
  Channel* channel = ChannelOf(*peer);
  const RoutingId* to = peer->dealer ? nullptr : &peer->routing_id;
  wire::Join(&message);
  if (shared_) options_.traffic->OnCopied(shared_->LeaseOut(id, &message));
  const bool inside = wire::IsPayloadInline(message);
  if (!inside) options_.traffic->OnCopied(wire::Pack(&message, memory_));
  const Frame envelope = wire::EncodeEnvelope(message, wire::kProtocolVersion, memory_);
  if (inside) message.payload.clear();
  const SendResult sent =
      SendMultipart(channel->socket.native(), to, envelope, message.payload, peer->queue, memory_);
  if (sent.consumed_signal) channel->drained = false;
  if (sent.reached) {
    ++counters_.sent;
    options_.traffic->OnSent(envelope, message.payload);
  } else {
    ++counters_.unreachable;
  }
}

bool ZmqDriver::Post(Loop::Task&& task) {
  const bool taken = outside_.With([&](CrossThreadState& o) {
    if (!o.closed) o.tasks.push_back(std::move(task));
    return !o.closed;
  });
  if (taken && !tasks_waiting_.exchange(true) && sleeping_) poller_.Wake();
  return taken;
}

bool ZmqDriver::PostOrRun(Loop::Task&& task) {
  if (!lock_.TryLock()) return Post(std::move(task));
  if (!up_) {
    lock_.Unlock();
    return Post(std::move(task));
  }
  bool ran = false;
  try {
    if (caller_exception_ == nullptr) {
      RunTasks();
      ran = true;
      task(Now(), *this);
    }
  } catch (...) {
    caller_exception_ = std::current_exception();
  }
  if (!ran) running_.push_back(std::move(task));
  UnlockLoop();
  return true;
}

void ZmqDriver::DriveUntil(const std::function<bool()>& done, Time deadline) {
  if (!lock_.TryLock()) return;
  if (caller_drives_ || !up_) return lock_.Unlock();
  caller_drives_ = true;
  try {
    while (up_ && !stop_ && caller_exception_ == nullptr && !done() && Now() < deadline) {
      RunOnce();
      if (machine_->Done()) break;
      if (!Idle()) {
        PollBusy(&caller_poller_);
        continue;
      }
      if (done()) continue;
      SetAlarm();
      caller_poller_.SetAlarm(deadline);
      SleepOn(&caller_poller_);
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
  bool wake = stop_ || caller_exception_ != nullptr || channels_changed_ || machine_->Done();
  for (Channel* channel : channels_) {
    if (!channel->drained) channel->drained = !channel->socket.Readable();
    wake = wake || !channel->drained;
  }
  wake = wake || (shared_ && !shared_drained_);
  SetAlarm();
  const bool caller_drives = caller_drives_;
  lock_.Unlock();
  if (wake) poller_.Wake();
  if (caller_drives) caller_poller_.Wake();
}

bool ZmqDriver::Join(Duration timeout) {
  return outside_.Await(
      timeout, [](const CrossThreadState& o) { return o.ended; },
      [](CrossThreadState&, bool ended) { return ended; });
}

std::string ZmqDriver::failure() const {
  return outside_.With([](const CrossThreadState& o) { return o.failure; });
}

ZmqCounters ZmqDriver::counters() const {
  const auto get = [](const std::atomic<uint64_t>& n) { return n.load(std::memory_order_relaxed); };
  ZmqCounters counters{.sent = get(counters_.sent),
                       .received = get(counters_.received),
                       .overflowed = get(counters_.overflowed),
                       .unreachable = get(counters_.unreachable),
                       .bad = get(counters_.bad),
                       .muted = get(counters_.muted),
                       .thrown_away = get(counters_.thrown_away),
                       .cut = get(counters_.cut),
                       .forgotten = get(counters_.forgotten)};
  if (!shared_) return counters;
  counters.leased = get(shared_->counters().leased);
  counters.leased_copies = get(shared_->counters().copied);
  counters.leases_opened = get(shared_->counters().leases_opened);
  return counters;
}

void ZmqDriver::ThreadMain() {
  BlockSignals();
  SetThreadName(options_.name);
  lock_.Lock();
  std::string failure;
  try {
    machine_->OnStart(Now(), *this);
    up_ = true;
    Run();
  } catch (const std::exception& e) {
    failure = WithLimits(e);
  } catch (...) {
    failure = "something was thrown that is no std::exception";
  }
  if (!failure.empty()) LOG(ERROR) << WrapLogged(StrCat(options_.name, " ends: ", failure));
  End(failure);
}

void ZmqDriver::Run() {
  while (!stop_) {
    if (caller_exception_ != nullptr) std::rethrow_exception(caller_exception_);
    RunOnce();
    if (machine_->Done()) return;
    Idle() ? Sleep() : PollBusy(&poller_);
  }
}

void ZmqDriver::RunOnce() {
  RunTasks();
  if (room_wakeup_->TakeWoken()) ReportRoom();
  Time now = Now();
  if (machine_->NextTimer() <= now) machine_->OnTimer(now, *this);
  if (machine_->Done()) return;
  RebuildPollSet();
  for (Channel* channel : channels_) {
    if (!channel->drained) Read(channel, &now);
  }
  if (shared_) {
    if (!shared_drained_) ReadMemory();
    shared_->WakePeersOfReturns();
  }
  if (connection_monitor_ && connection_monitor_->next_check() <= Now()) CheckConnections();
}

bool ZmqDriver::Idle() const {
  return !channels_changed_ && (!shared_ || shared_drained_) &&
         std::all_of(channels_.begin(), channels_.end(), [](const Channel* c) { return c->drained; });
}

void ZmqDriver::RunTasks() {
  TakeTasks();
  while (next_running_ < running_.size()) {
    Loop::Task task = std::move(running_[next_running_++]);
    task(Now(), *this);
  }
  running_.clear();
  next_running_ = 0;
}

void ZmqDriver::TakeTasks() {
  if (!tasks_waiting_.exchange(false)) return;
  outside_.With([&](CrossThreadState& o) {
    std::ranges::move(o.tasks, std::back_inserter(running_));
    o.tasks.clear();
  });
}

// Closes the dealers of disconnected peers and lists the sockets to read. Runs between calls of the machine,
// when no function up the stack holds a pointer to a channel.
void ZmqDriver::RebuildPollSet() {
  if (!channels_changed_) return;
  channels_changed_ = false;
  for (Poller* poller : {&caller_poller_, &poller_}) poller->UnwatchAll();
  channels_.clear();
  if (router_) channels_.push_back(router_.get());
  std::erase_if(peers_, [](const auto& entry) { return entry.second->dealer && !entry.second->open; });
  for (const auto& [id, peer] : peers_) {
    if (!peer->dealer) continue;
    if (peer->monitor && peer->monitor->peer == nullptr) peer->monitor.reset();
    channels_.push_back(peer->dealer.get());
    if (peer->monitor) channels_.push_back(peer->monitor.get());
  }
  std::vector<Poller::Input> inputs;
  for (Channel* channel : channels_) {
    channel->drained = false;
    inputs.push_back({channel->socket.fd(), &channel->drained});
  }
  if (shared_) {
    shared_->CloseUnused();
    shared_drained_ = false;
    for (const int descriptor : shared_->descriptors()) inputs.push_back({descriptor, &shared_drained_});
  }
  // The order matters: see Poller::Watch.
  for (Poller* poller : {&caller_poller_, &poller_}) poller->Watch(inputs);
}

void ZmqDriver::Sleep() {
  if (caller_drives_) caller_poller_.Wake();  // the caller's condition may have become true here
  SetAlarm();
  // Set before the last look at tasks_waiting_: a thread that posts later sees it and wakes this one.
  sleeping_ = true;
  if (!tasks_waiting_ && !stop_) SleepOn(&poller_);
  sleeping_ = false;
}

void ZmqDriver::SetAlarm() {
  poller_.SetAlarm(connection_monitor_ ? std::min(machine_->NextTimer(), connection_monitor_->next_check())
                                       : machine_->NextTimer());
}

void ZmqDriver::SleepOn(Poller* poller) {
  lock_.Unlock();
  const int ready = poller->Sleep();
  lock_.Lock();
  DispatchReady(poller, ready);
}

// Polls every kBusyPasses passes, so that a channel that always has something to read does not starve the
// other channels and shared memory.
void ZmqDriver::PollBusy(Poller* poller) {
  if (++busy_passes_ % kBusyPasses == 0 && (channels_.size() > 1 || shared_))
    DispatchReady(poller, poller->Poll());
}

void ZmqDriver::DispatchReady(Poller* poller, int ready) {
  poller->Report(ready, [](void* drained) { *static_cast<bool*>(drained) = false; });
  if (ready >= 0 && ready < Poller::kMaxReady) return;
  // More descriptors may be ready than were reported, or a signal interrupted the wait: all are read.
  for (Channel* channel : channels_) channel->drained = false;
  shared_drained_ = false;
}

void ZmqDriver::CheckConnections() {
  if (router_->drained) connection_monitor_->OnAllRead();
  for (const std::string& who : connection_monitor_->Check(Now())) {
    ++counters_.cut;
    Warn(nullptr, who);
  }
  if (!peer_table_.HasNewlyGone()) return;
  if (router_->socket.Readable()) router_->drained = false;
  if (!router_->drained) return;  // the last messages of these peers are delivered before OnClosed
  for (const PeerId peer : peer_table_.TakeGone()) machine_->OnClosed(Now(), peer, *this);
}

void ZmqDriver::Read(Channel* channel, Time* now) {
  if (channel->is_monitor) return ReadMonitor(channel);
  ReadBurst(channel, now);
  machine_->OnBurstEnd(*now, *this);
}

void ZmqDriver::ReadBurst(Channel* channel, Time* now) {
  for (int i = 0; i < kBurst; ++i) {
    Multipart parts;
    const auto state = ReceiveMultipart(channel->socket.native(), channel->peer == nullptr, options_.limits,
                                        memory_, &parts);
    if (state == Multipart::State::kClosed)
      throw Error(ErrorCode::kCancelled, "the ZeroMQ context has ended");
    if (state == Multipart::State::kNone) {
      channel->drained = true;
      if (channel->peer == nullptr) connection_monitor_->OnAllRead();
      return;
    }
    *now = Now();
    options_.traffic->OnReceived(parts.envelope.bytes(), parts.payload);
    if (channel->peer == nullptr)
      connection_monitor_->OnMessage(parts.connection, parts.wire_bytes, IsKnown(parts), *now);
    Deliver(*now, channel, state, &parts);
    if (machine_->Done() || tasks_waiting_ || (channel->peer != nullptr && !channel->peer->open)) return;
  }
}

void ZmqDriver::Warn(const Peer* peer, const std::string& what) {
  uint64_t suppressed = 0;
  if (!log_.Allow(Now(), &suppressed)) return;
  LOG(WARNING) << WrapLogged(StrCat(options_.name, ": ", peer == nullptr ? "" : peer->name + ": ", what,
                                    SuppressedText(suppressed)));
}

void ZmqDriver::End(const std::string& failure) {
  const bool in_order = failure.empty() && machine_->Done();
  const Duration last_words = failure.empty() ? Duration::zero() : kFailureLinger;
  Linger(in_order ? std::min(options_.linger, machine_->Linger()) : last_words);
  // OnEnd runs before Post refuses tasks, so a caller whose Post returns false finds the machine at rest.
  try {
    machine_->OnEnd(Now(), failure.empty() ? "the loop has ended" : failure, *this);
  } catch (const std::exception& e) {  // for example, memory is still exhausted
    LOG(ERROR) << WrapLogged(StrCat(options_.name, ", while it ends: ", WithLimits(e)));
  }
  if (!failure.empty() && options_.on_failure) options_.on_failure(failure);
  outside_.With([](CrossThreadState& o) { o.closed = true; });
  tasks_waiting_ = true;
  RunTasks();
  for (Poller* poller : {&caller_poller_, &poller_}) poller->UnwatchAll();
  channels_.clear();
  peers_.clear();
  connection_monitor_.reset();
  router_.reset();
  // Once a worker's loop has ended, its arrays may be written to, so its leases must have been returned. A
  // server's memory is not written to.
  if (shared_ && in_order && options_.bind.empty() && !shared_->AwaitReturns(options_.linger))
    LOG(WARNING) << options_.name << " ends while memory of its own is still being read";
  up_ = false;
  room_wakeup_->Detach();
  lock_.Unlock();
  caller_poller_.Wake();
  outside_.Notify([&](CrossThreadState& o) {
    o.ended = true;
    o.failure = failure;
  });
}

}  // namespace sluice::transport
