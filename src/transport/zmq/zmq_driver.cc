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

// Messages read from one channel before the others, the timer and posted tasks have their turn.
constexpr int kBurst = 32;
// Turns that end with something left to do, until all channels are asked.
constexpr unsigned kBusyTurns = 4;
// For what a machine says when its loop fails.
constexpr Duration kLastWords = 500ms;

}  // namespace

ZmqDriver::ZmqDriver(std::shared_ptr<ZmqContext> context, std::shared_ptr<Machine> machine,
                     ZmqLoopOptions options)
    : context_(std::move(context)),
      machine_(std::move(machine)),
      options_(std::move(options)),
      guests_(options_.max_gone_peers),
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
  helper_poller_.Wake();
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
  if (shared_) options_.traffic->OnCopied(shared_->Lend(id, &message));
  const bool inside = wire::PayloadTravelsInside(message);
  if (!inside) options_.traffic->OnCopied(wire::Pack(&message, memory_));
  const Frame envelope = wire::EncodeEnvelope(message, wire::kProtocolVersion, memory_);
  if (inside) message.payload.clear();
  const Sent sent =
      SendMultipart(channel->socket.native(), to, envelope, message.payload, peer->queue, memory_);
  if (sent.took_note) channel->dry = false;
  if (sent.reached) {
    ++counters_.sent;
    options_.traffic->OnSent(envelope, message.payload);
  } else {
    ++counters_.unreachable;
  }
}

bool ZmqDriver::Post(Loop::Task&& task) {
  const bool taken = outside_.With([&](Outside& o) {
    if (!o.closed) o.tasks.push_back(std::move(task));
    return !o.closed;
  });
  if (taken && !tasks_waiting_.exchange(true) && sleeping_) poller_.Wake();
  return taken;
}

bool ZmqDriver::PostOrRun(Loop::Task&& task) {
  if (!turn_.TryTake()) return Post(std::move(task));
  if (!up_) {
    turn_.Leave();
    return Post(std::move(task));
  }
  bool its_turn = false;
  try {
    if (thrown_ == nullptr) {
      RunTasks();
      its_turn = true;
      task(Now(), *this);
    }
  } catch (...) {
    thrown_ = std::current_exception();
  }
  if (!its_turn) running_.push_back(std::move(task));
  LeaveTurn();
  return true;
}

void ZmqDriver::Help(const std::function<bool()>& done, Time deadline) {
  if (!turn_.TryTake()) return;
  if (helping_ || !up_) return turn_.Leave();
  helping_ = true;
  try {
    while (up_ && !stop_ && thrown_ == nullptr && !done() && Now() < deadline) {
      RunTurn();
      if (machine_->Done()) break;
      if (!Idle()) {
        LookAround(&helper_poller_);
        continue;
      }
      if (done()) continue;
      SetAlarm();
      helper_poller_.SetAlarm(deadline);
      SleepOn(&helper_poller_);
    }
  } catch (...) {
    thrown_ = std::current_exception();
  }
  helping_ = false;
  up_ ? LeaveTurn() : turn_.Leave();
}

// A socket that was used may have something to read, and tells no more of it: see the header.
void ZmqDriver::LeaveTurn() {
  bool wake = stop_ || thrown_ != nullptr || channels_changed_ || machine_->Done();
  for (Channel* channel : channels_) {
    if (!channel->dry) channel->dry = !channel->socket.Readable();
    wake = wake || !channel->dry;
  }
  wake = wake || (shared_ && !shared_dry_);
  SetAlarm();
  const bool helping = helping_;
  turn_.Leave();
  if (wake) poller_.Wake();
  if (helping) helper_poller_.Wake();
}

bool ZmqDriver::Join(Duration timeout) {
  return outside_.Await(
      timeout, [](const Outside& o) { return o.ended; }, [](Outside&, bool ended) { return ended; });
}

std::string ZmqDriver::failure() const {
  return outside_.With([](const Outside& o) { return o.failure; });
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
  counters.lent = get(shared_->counters().lent);
  counters.lent_copies = get(shared_->counters().copied);
  counters.borrowed = get(shared_->counters().borrowed);
  return counters;
}

void ZmqDriver::ThreadMain() {
  BlockSignals();
  SetThreadName(options_.name);
  turn_.Take();
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
    if (thrown_ != nullptr) std::rethrow_exception(thrown_);
    RunTurn();
    if (machine_->Done()) return;
    Idle() ? Sleep() : LookAround(&poller_);
  }
}

void ZmqDriver::RunTurn() {
  RunTasks();
  if (room_wakeup_->TakeWoken()) TellOfRoom();
  Time now = Now();
  if (machine_->NextTimer() <= now) machine_->OnTimer(now, *this);
  if (machine_->Done()) return;
  Settle();
  for (Channel* channel : channels_) {
    if (!channel->dry) Read(channel, &now);
  }
  if (shared_) {
    if (!shared_dry_) ReadMemory();
    shared_->WakeWhoIsOwed();
  }
  if (door_ && door_->next_look() <= Now()) LookAtDoor();
}

bool ZmqDriver::Idle() const {
  return !channels_changed_ && (!shared_ || shared_dry_) &&
         std::all_of(channels_.begin(), channels_.end(), [](const Channel* c) { return c->dry; });
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
  outside_.With([&](Outside& o) {
    std::ranges::move(o.tasks, std::back_inserter(running_));
    o.tasks.clear();
  });
}

// Closes what was disconnected and lists what is to be read; between calls of the machine, when nobody holds
// a channel.
void ZmqDriver::Settle() {
  if (!channels_changed_) return;
  channels_changed_ = false;
  for (Poller* poller : {&helper_poller_, &poller_}) poller->Forget();
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
    channel->dry = false;
    inputs.push_back({channel->socket.fd(), &channel->dry});
  }
  if (shared_) {
    shared_->CloseUnused();
    shared_dry_ = false;
    for (const int descriptor : shared_->descriptors()) inputs.push_back({descriptor, &shared_dry_});
  }
  for (Poller* poller : {&helper_poller_, &poller_}) poller->Watch(inputs);  // in this order: see Watch
}

void ZmqDriver::Sleep() {
  if (helping_) helper_poller_.Wake();  // what it waits for may have happened here
  SetAlarm();
  sleeping_ = true;  // before the last look at what was posted: whoever posts later sees it and wakes
  if (!tasks_waiting_ && !stop_) SleepOn(&poller_);
  sleeping_ = false;
}

void ZmqDriver::SetAlarm() {
  poller_.SetAlarm(door_ ? std::min(machine_->NextTimer(), door_->next_look()) : machine_->NextTimer());
}

void ZmqDriver::SleepOn(Poller* poller) {
  turn_.Leave();
  const int ready = poller->Sleep();
  turn_.Take();
  Hear(poller, ready);
}

// A channel that always has something must not keep the others, and shared memory, from being heard.
void ZmqDriver::LookAround(Poller* poller) {
  if (++busy_turns_ % kBusyTurns == 0 && (channels_.size() > 1 || shared_)) Hear(poller, poller->Look());
}

void ZmqDriver::Hear(Poller* poller, int ready) {
  poller->Report(ready, [](void* dry) { *static_cast<bool*>(dry) = false; });
  if (ready >= 0 && ready < Poller::kMaxReady) return;
  for (Channel* channel : channels_)
    channel->dry = false;  // there may be more than were told, or a signal came
  shared_dry_ = false;
}

void ZmqDriver::LookAtDoor() {
  if (router_->dry) door_->OnAllRead();
  for (const std::string& who : door_->Look(Now())) {
    ++counters_.cut;
    Warn(nullptr, who);
  }
  if (!guests_.HaveLeft()) return;
  if (router_->socket.Readable()) router_->dry = false;
  if (!router_->dry) return;  // first their last words
  for (const PeerId peer : guests_.TakeLeft()) machine_->OnClosed(Now(), peer, *this);
}

void ZmqDriver::Read(Channel* channel, Time* now) {
  if (channel->is_monitor) return ReadMonitor(channel);
  ReadBurst(channel, now);
  machine_->OnRest(*now, *this);
}

void ZmqDriver::ReadBurst(Channel* channel, Time* now) {
  for (int i = 0; i < kBurst; ++i) {
    Multipart parts;
    const auto state = ReceiveMultipart(channel->socket.native(), channel->peer == nullptr, options_.limits,
                                        memory_, &parts);
    if (state == Multipart::State::kClosed)
      throw Error(ErrorCode::kCancelled, "the ZeroMQ context has ended");
    if (state == Multipart::State::kNone) {
      channel->dry = true;
      if (channel->peer == nullptr) door_->OnAllRead();
      return;
    }
    *now = Now();
    options_.traffic->OnReceived(parts.envelope.bytes(), parts.payload);
    if (channel->peer == nullptr) door_->OnMessage(parts.connection, parts.wire_bytes, IsKnown(parts), *now);
    Deliver(*now, channel, state, &parts);
    if (machine_->Done() || tasks_waiting_ || (channel->peer != nullptr && !channel->peer->open)) return;
  }
}

void ZmqDriver::Warn(const Peer* peer, const std::string& what) {
  uint64_t swallowed = 0;
  if (!log_.Allow(Now(), &swallowed)) return;
  LOG(WARNING) << WrapLogged(
      StrCat(options_.name, ": ", peer == nullptr ? "" : peer->name + ": ", what, KeptBack(swallowed)));
}

void ZmqDriver::End(const std::string& failure) {
  const bool in_order = failure.empty() && machine_->Done();
  const Duration last_words = failure.empty() ? Duration::zero() : kLastWords;
  Linger(in_order ? std::min(options_.linger, machine_->Linger()) : last_words);
  // Before the door closes: whose Post is refused finds the machine at rest.
  try {
    machine_->OnEnd(Now(), failure.empty() ? "the loop has ended" : failure, *this);
  } catch (const std::exception& e) {  // no memory, still
    LOG(ERROR) << WrapLogged(StrCat(options_.name, ", while it ends: ", WithLimits(e)));
  }
  if (!failure.empty() && options_.on_failure) options_.on_failure(failure);
  outside_.With([](Outside& o) { o.closed = true; });
  tasks_waiting_ = true;
  RunTasks();
  for (Poller* poller : {&helper_poller_, &poller_}) poller->Forget();
  channels_.clear();
  peers_.clear();
  door_.reset();
  router_.reset();
  // What was lent may be written to once a worker's loop has ended; a server's memory is not.
  if (shared_ && in_order && options_.bind.empty() && !shared_->AwaitReturns(options_.linger))
    LOG(WARNING) << options_.name << " ends while memory of its own is still being read";
  up_ = false;
  room_wakeup_->Detach();
  turn_.Leave();
  helper_poller_.Wake();
  outside_.Notify([&](Outside& o) {
    o.ended = true;
    o.failure = failure;
  });
}

}  // namespace sluice::transport
