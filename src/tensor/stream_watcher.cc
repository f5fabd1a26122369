// WatchedDevice passes every call on, and notes times around the work of each operation. Times of a stream
// are kept by its operations alone, which end in order. A callback of an event holds the watcher alive, not
// the device. Devices::WatchWith and benchmarks make watched devices.
#include "tensor/stream_watcher.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <utility>

#include "base/mutex.h"
#include "base/strings.h"
#include "tensor/kernels.h"

namespace sluice {
namespace {

int64_t Now() {
  return SteadyClock().Now().time_since_epoch().count();
}

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
    event.OnDone([stamp](const std::exception_ptr&) { stamp->done = Now(); });
    stamps.push_back(stamp);
  }
  return stamps;
}

struct Watch {
  std::string stream;
  std::shared_ptr<StreamWatcher> watcher;
  std::atomic<int64_t> last_end = 0;  // nanoseconds of Time: of the stream's last operation

  void Report(std::string what, Time issued, Time began, const std::vector<std::shared_ptr<Stamp>>& stamps) {
    // Callbacks of one GPU's stream may run on two threads, so that a later end is noted first.
    const Time before(Duration(last_end.load()));
    StreamOperation operation{stream, std::move(what), std::max(issued, before), began, {}, {}};
    operation.began = std::max(operation.began, operation.ready);
    operation.ended = std::max(SteadyClock().Now(), operation.began);
    const int64_t end = operation.ended.time_since_epoch().count();
    for (int64_t last = last_end; last < end && !last_end.compare_exchange_weak(last, end);) continue;
    for (const auto& stamp : stamps) {
      // The event is done, since the work has run, but its callback may not have stored the time yet.
      const Time done = stamp->done == 0 ? operation.began : Time(Duration(stamp->done));
      operation.waits.push_back({stamp->what, done});
      if (began == Time()) operation.began = std::clamp(done, operation.began, operation.ended);
    }
    watcher->OnOperation(operation);
  }
};

class WatchedStream final : public Stream {
 public:
  // `on_thread`: the stream runs an operation's work when it is its turn, and does not issue it ahead.
  WatchedStream(Stream& stream, std::shared_ptr<Watch> watch, bool on_thread)
      : stream_(stream), watch_(std::move(watch)), on_thread_(on_thread) {}

  Event Enqueue(Label what, std::span<const Event> after, Work work) override {
    const Time issued = SteadyClock().Now();
    std::string name(what.text());
    if (!on_thread_) {
      auto stamps = StampsOf(after);
      Event done = stream_.Enqueue(std::move(what), after, std::move(work));
      auto rest =
          std::make_unique<std::pair<std::string, decltype(stamps)>>(std::move(name), std::move(stamps));
      done.OnDone([watch = watch_, issued, rest = std::move(rest)](const std::exception_ptr&) {
        watch->Report(std::move(rest->first), issued, {}, rest->second);
      });
      return done;
    }
    return stream_.Enqueue(std::move(what), after,
                           [watch = watch_, issued, name = std::move(name), stamps = StampsOf(after),
                            work = std::move(work)]() mutable {
                             const Time began = SteadyClock().Now();
                             watch->watcher->OnBegin();
                             work();
                             watch->Report(std::move(name), issued, began, stamps);
                           });
  }
  void Drain(Duration timeout) override { stream_.Drain(timeout); }

 private:
  Stream& stream_;
  const std::shared_ptr<Watch> watch_;
  const bool on_thread_;
};

class WatchedDevice final : public Device {
 public:
  WatchedDevice(Context context, std::shared_ptr<Device> device, std::shared_ptr<StreamWatcher> watcher,
                std::shared_ptr<Kernels> kernels)
      : context_(context),
        device_(std::move(device)),
        watcher_(std::move(watcher)),
        kernels_(std::move(kernels)) {}

  Stream& stream() override { return WatchedFor(device_->stream(), ""); }
  Kernels& kernels() override { return kernels_ != nullptr ? *kernels_ : device_->kernels(); }
  const std::shared_ptr<Allocator>& allocator() override { return device_->allocator(); }
  const std::shared_ptr<Allocator>& records() override { return device_->records(); }
  DeviceStream to_host() override { return WatchedOf(device_->to_host(), " to host"); }
  DeviceStream from_host() override { return WatchedOf(device_->from_host(), " from host"); }
  DeviceStream delivered() override { return WatchedOf(device_->delivered(), " delivered"); }
  DeviceStream collective() override { return WatchedOf(device_->collective(), " collective"); }
  void Drain() override { device_->Drain(); }
  void LeaveUses(const void* memory, std::span<const Event> uses) override {
    device_->LeaveUses(memory, uses);
  }
  Events TakeUses(const void* memory) override { return device_->TakeUses(memory); }
  void EnablePeerAccess(int other) override { device_->EnablePeerAccess(other); }
  void SetShare(const CpuShare& share) override { device_->SetShare(share); }
  const std::shared_ptr<Device>& own_device() const { return device_; }

 private:
  DeviceStream WatchedOf(const DeviceStream& own, const char* suffix) {
    return {WatchedFor(own.stream, suffix), kernels_ != nullptr ? *kernels_ : own.kernels};
  }
  // A stream keeps the suffix with which it was asked for first.
  WatchedStream& WatchedFor(Stream& stream, const char* suffix) {
    const MutexLock lock(mutex_);
    std::unique_ptr<WatchedStream>& watched = streams_[&stream];
    if (watched == nullptr) {
      const bool main = &stream == &device_->stream();
      auto watch = std::make_shared<Watch>();
      watch->stream = StrCat(context_, main ? "" : suffix);
      watch->watcher = watcher_;
      watched = std::make_unique<WatchedStream>(stream, std::move(watch), context_.kind != DeviceKind::kGpu);
    }
    return *watched;
  }

  const Context context_;
  const std::shared_ptr<Device> device_;
  const std::shared_ptr<StreamWatcher> watcher_;
  const std::shared_ptr<Kernels> kernels_;
  Mutex mutex_;
  std::map<Stream*, std::unique_ptr<WatchedStream>> streams_ SLUICE_GUARDED_BY(mutex_);
};

}  // namespace

std::shared_ptr<Device> Watched(Context context, std::shared_ptr<Device> device,
                                std::shared_ptr<StreamWatcher> watcher, std::shared_ptr<Kernels> kernels) {
  if (const auto* const watched = dynamic_cast<const WatchedDevice*>(device.get()))
    device = watched->own_device();
  if (watcher == nullptr) return device;
  return std::make_shared<WatchedDevice>(context, std::move(device), std::move(watcher), std::move(kernels));
}

}  // namespace sluice
