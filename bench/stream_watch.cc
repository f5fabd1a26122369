#include "stream_watch.h"

#include <algorithm>
#include <atomic>

namespace sluice::bench {
namespace {

// The time at which an event was done; for an event that was done before the operation was issued, the time
// of issue.
struct Stamp {
  std::string what;
  std::atomic<int64_t> done = 0;  // nanoseconds of Time; 0: not yet
};

std::vector<std::shared_ptr<Stamp>> StampsOf(std::span<const Event> after) {
  std::vector<std::shared_ptr<Stamp>> stamps;
  for (const Event& event : after) {
    if (event.what().find(" of key ") == std::string_view::npos) continue;
    const auto stamp = std::make_shared<Stamp>();
    stamp->what = event.what();
    event.OnDone(
        [stamp](const std::exception_ptr&) { stamp->done = SteadyClock().Now().time_since_epoch().count(); });
    stamps.push_back(stamp);
  }
  return stamps;
}

class WatchedStream final : public Stream {
 public:
  WatchedStream(Stream& stream, std::shared_ptr<StreamWatcher> watcher)
      : stream_(stream), watcher_(std::move(watcher)), last_end_(std::make_shared<Time>()) {}

  Event Enqueue(Label what, std::span<const Event> after, Work work) override {
    return stream_.Enqueue(
        what, after,
        [watcher = watcher_, last_end = last_end_, name = std::string(what.text()),
         issued = SteadyClock().Now(), stamps = StampsOf(after), work = std::move(work)]() mutable {
          const SteadyClock clock;
          Operation operation{name, std::max(issued, *last_end), clock.Now(), {}, {}};
          TakeCost();
          work();
          operation.ended = *last_end = clock.Now();
          operation.cost = TakeCost();
          for (const auto& stamp : stamps) {
            // The event is done, since work() has run, but its callback may not have stored the time yet.
            const Time done = stamp->done == 0 ? operation.began : Time(Duration(stamp->done));
            operation.waits.push_back({stamp->what, done});
          }
          watcher->OnOperation(operation);
        });
  }
  void Drain(Duration timeout) override { stream_.Drain(timeout); }

 private:
  Stream& stream_;
  const std::shared_ptr<StreamWatcher> watcher_;
  const std::shared_ptr<Time> last_end_;  // used on the stream's thread only
};

class WatchedDevice final : public Device {
 public:
  WatchedDevice(std::shared_ptr<Device> device, std::shared_ptr<StreamWatcher> watcher)
      : device_(std::move(device)),
        stream_(device_->stream(), std::move(watcher)),
        kernels_(CountCosts(device_->kernels())) {}
  Stream& stream() override { return stream_; }
  const std::shared_ptr<Allocator>& allocator() override { return device_->allocator(); }
  const std::shared_ptr<Allocator>& records() override { return device_->records(); }
  Kernels& kernels() override { return *kernels_; }
  void SetShare(const CpuShare& share) override { device_->SetShare(share); }

 private:
  const std::shared_ptr<Device> device_;
  WatchedStream stream_;
  const std::unique_ptr<Kernels> kernels_;
};

}  // namespace

void UseDevices(int threads_per_cpu_context, std::shared_ptr<StreamWatcher> watcher) {
  DevicesOptions options{.threads_per_cpu_context = threads_per_cpu_context};
  if (watcher != nullptr) {
    options.wrap_device = [watcher](std::shared_ptr<Device> device) {
      return std::make_shared<WatchedDevice>(std::move(device), watcher);
    };
  }
  Devices::SetDefault(std::make_shared<Devices>(options));
}

}  // namespace sluice::bench
