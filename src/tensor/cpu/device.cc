// cpu(i): one thread in order, with its share of the cores for the kernels' own threads.
#include <omp.h>

#include <algorithm>

#include "base/executor.h"
#include "base/pool_allocator.h"
#include "base/strings.h"
#include "sluice/error.h"
#include "tensor/access.h"
#include "tensor/cpu/kernels.h"
#include "tensor/cpu/parallel.h"
#include "tensor/devices.h"

namespace sluice {
namespace {

class CpuStream final : public Stream {
 public:
  CpuStream(int id, int threads)
      : executor_(StrCat("cpu(", id, ")"), [threads] {
          // oneDNN shares work among as many threads as it asked for; a smaller team leaves some of it
          // undone.
          omp_set_num_threads(std::min(threads, omp_get_thread_limit()));
        }) {}

  Event Enqueue(std::string_view what, std::span<const Event> after, std::function<void()> work) override {
    Event done = Event::Make(std::string(what));
    std::vector<Event> waits;
    for (const Event& event : after) waits.push_back(event);
    executor_.Post(
        [done, waits = std::move(waits), work = std::move(work), name = std::string(what)]() mutable {
          std::exception_ptr error;
          try {
            for (const Event& event : waits) event.Wait();
            work();
          } catch (const Error& e) {
            error = std::make_exception_ptr(Error(e.code(), Named(name, e.what())));
          } catch (const std::exception& e) {
            error = std::make_exception_ptr(Error(ErrorCode::kUnavailable, Named(name, e.what())));
          } catch (...) {
            error = std::make_exception_ptr(Error(ErrorCode::kUnavailable, Named(name, "unknown error")));
          }
          work = nullptr;  // lets go of its arrays before whoever waits goes on
          waits.clear();
          done.Complete(error);
        });
    return done;
  }

  void Drain(Duration timeout) override {
    Enqueue("everything before", {}, [] {}).Wait(timeout);
  }

 private:
  // The operation that failed first is the one to name.
  static std::string Named(const std::string& name, const std::string& what) {
    return what.starts_with("operation ") ? what : StrCat("operation ", name, ": ", what);
  }
  ThreadExecutor executor_;
};

class CpuDevice final : public Device {
 public:
  CpuDevice(int id, int threads)
      : allocator_(std::make_shared<PoolAllocator>()), kernels_(MakeCpuKernels()), stream_(id, threads) {}
  Stream& stream() override { return stream_; }
  const std::shared_ptr<Allocator>& allocator() override { return allocator_; }
  Kernels& kernels() override { return *kernels_; }

 private:
  const std::shared_ptr<Allocator> allocator_;
  const std::unique_ptr<Kernels> kernels_;
  CpuStream stream_;  // last: drains before the kernels go
};

}  // namespace

void ForPieces(int64_t n, int64_t grain, const std::function<void(int64_t begin, int64_t end)>& body) {
  ParallelFor(n, grain, body);
}

std::shared_ptr<Device> MakeCpuDevice(int id, int threads) {
  return std::make_shared<CpuDevice>(id, threads);
}

}  // namespace sluice
