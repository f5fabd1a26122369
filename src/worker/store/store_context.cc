#include "worker/store/store_context.h"

namespace sluice::worker {
namespace {

// How long a wait continues after the client's own deadline, whose error names what was waited for.
constexpr std::chrono::seconds kGrace{5};

// Lets a thread that waits for a value drive the client's loop and deliver the value itself, so that
// no other thread has to wake first.
class DrivenLoop final : public Event::LoopDriver {
 public:
  explicit DrivenLoop(std::shared_ptr<transport::Loop> loop) : loop_(std::move(loop)) {}
  void DriveUntil(const std::function<bool()>& done, Time deadline) override {
    loop_->DriveUntil(done, deadline);
  }

 private:
  const std::shared_ptr<transport::Loop> loop_;
};

}  // namespace

StoreContext::StoreContext(DistStoreOptions options, std::shared_ptr<Client> client,
                           std::shared_ptr<transport::Loop> loop)
    : options_(std::move(options)),
      client_{std::move(client), std::move(loop)},
      loop_driver_(std::make_shared<DrivenLoop>(client_.loop)),
      records_(std::make_shared<PoolAllocator>(kKeptRecords)),
      sent_(std::make_shared<PoolAllocator>(kKeptRecords, options_.memory)),
      rank_(static_cast<int>(client_.client->session().rank())),
      timeout_(Bounded(options_.timeout)) {}

void StoreContext::SetTimeout(std::chrono::milliseconds timeout) {
  kvstore::RequireTimeout(timeout);
  timeout_ = Bounded(timeout);
}

Duration StoreContext::Timeout(std::chrono::milliseconds given) const {
  return given == KVStore::kDefaultTimeout ? timeout_.load() : Bounded(given);
}

Event StoreContext::MakeEnd(const Label& what, bool may_run_inline) const {
  return Event::Make(what, may_run_inline ? loop_driver_ : nullptr, records_);
}

void StoreContext::Trace(const Event& passed, Stage stage, uint32_t key, uint64_t round,
                         uint64_t bytes) const {
  if (options_.tracer == nullptr) return;
  passed.OnDone([tracer = options_.tracer, stage, key, round, bytes](const std::exception_ptr& error) {
    if (error == nullptr) tracer->OnStage(SteadyClock().Now(), stage, key, round, bytes);
  });
}

void StoreContext::Await(const std::string& what, Duration timeout, ControlCall call) const {
  WaitFor({Ask(what, std::move(call))}, timeout);
}

void StoreContext::Await(const std::string& what, std::shared_ptr<Operation> op) const {
  WaitFor({Ask(what, std::move(op))}, Timeout());
}

Event StoreContext::Ask(const std::string& what, ControlCall call) const {
  Event done = Event::Make(what, loop_driver_);
  client_.Run(std::move(call), done, true);
  return done;
}

Event StoreContext::Ask(const std::string& what, std::shared_ptr<Operation> op) const {
  Event done = Event::Make(what, loop_driver_);
  client_.Submit(std::move(op), Timeout(), done, true);
  return done;
}

void StoreContext::WaitFor(const std::vector<Event>& asked, Duration timeout) {
  for (const Event& event : asked) event.Wait(timeout + kGrace);
}

}  // namespace sluice::worker
