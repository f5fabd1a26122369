// cpu(i): one thread in order, with its share of the cores for the kernels' own threads.
#include <execinfo.h>
#include <omp.h>
#include <sched.h>

#include <algorithm>
#include <cstdlib>

#include "base/executor.h"
#include "base/limits.h"
#include "base/pool_allocator.h"
#include "base/strings.h"
#include "base/threads.h"
#include "tensor/access.h"
#include "tensor/cpu/kernels.h"
#include "tensor/cpu/parallel.h"
#include "tensor/devices.h"

namespace sluice {
namespace {

// Of freed arrays, for the next ones.
constexpr size_t kKeptBytes = size_t{1} << 30;
constexpr size_t kLeastMemory = size_t{64} << 20;  // beyond what the process has when a device is made

struct Operation {
  void Run() {
    std::exception_ptr error;
    try {
      for (const Event& event : after) event.Wait();
      work();
    } catch (...) {
      error = OfOperation(done.what(), std::current_exception());
    }
    work = nullptr;  // lets go of its arrays before whoever waits goes on
    after.clear();
    done.Complete(error);
  }

  const Event done;
  Events after;
  Stream::Work work;
};

void BindThisThread(std::span<const int> cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) CPU_SET(core, &set);
  // Refused where the cores were taken from the process meanwhile: it runs on what it has.
  static_cast<void>(sched_setaffinity(0, sizeof set, &set));
}

int TeamOf(const CpuShare& share) {
  return std::min(share.threads, omp_get_thread_limit());
}

// A thread's first allocation maps 64 MiB, its malloc arena. That happens here, so that memory that is found
// free for generated code later (onednn.cc) is still free when the code is written.
void TakeArena() {
  void* volatile some = std::malloc(1);  // volatile: a pair that nobody sees would be left out
  std::free(some);
}

// Of the calling thread. oneDNN shares work among as many threads as it asked for; a smaller team leaves some
// of it undone.
void SetTeam(const CpuShare& share) {
  const int threads = TeamOf(share);
  omp_set_num_threads(threads);
#pragma omp parallel num_threads(threads)
  {
    TakeArena();
    if (!share.cores.empty()) BindThisThread(share.cores);
  }
}

// libgomp ends the process where the system gives it no thread, and oneDNN writes through a null pointer
// where it has no memory for the code that it generates: asked before, on the caller's thread. SetTeam then
// takes what was found.
ThreadReservation RoomFor(int id, const CpuShare& share) {
  const std::string what_for = StrCat("computing on cpu(", id, ")");
  ThreadReservation threads(TeamOf(share), what_for);
  ReserveMemory(kLeastMemory, what_for);
  // libgomp's threads end by pthread_exit, which loads what unwinds a stack, and aborts where that fails.
  void* frame = nullptr;
  backtrace(&frame, 1);
  return threads;
}

class CpuStream final : public Stream {
 public:
  CpuStream(int id, const CpuShare& share, ThreadReservation threads, std::shared_ptr<Allocator> records)
      : records_(std::move(records)),
        executor_(StrCat("cpu(", id, ")"), [share, threads = std::move(threads)]() mutable {
          Devices::OnDeviceThread();
          SetTeam(share);
          threads.Release();
        }) {}

  Event Enqueue(Label what, std::span<const Event> after, Work work) override {
    auto operation = std::allocate_shared<Operation>(
        MemoryOf<Operation>(records_),
        Operation{Event::Make(std::move(what), *this, records_), {}, std::move(work)});
    for (const Event& event : after) {
      // What ran here before has ended: of that only the error may matter.
      if (!event.Succeeded() && !(event.quiet() && event.stream() == this)) operation->after.push_back(event);
    }
    const Event done = operation->done;
    executor_.Post([operation = std::move(operation)] { operation->Run(); });
    return done;
  }

  void Drain(Duration timeout) override {
    Enqueue("everything before", {}, [] {}).Wait(timeout);
  }

 private:
  const std::shared_ptr<Allocator> records_;
  ThreadExecutor executor_;
};

class CpuDevice final : public Device {
 public:
  CpuDevice(int id, const CpuShare& share, std::optional<bool> multiplies_bfloat16,
            const std::shared_ptr<Allocator>& memory)
      : allocator_(std::make_shared<PoolAllocator>(kKeptBytes, memory)),
        records_(std::make_shared<PoolAllocator>()),
        kernels_(MakeCpuKernels(multiplies_bfloat16)),
        id_(id),
        share_(share),
        stream_(id, share, RoomFor(id, share), records_) {}
  Stream& stream() override { return stream_; }
  const std::shared_ptr<Allocator>& allocator() override { return allocator_; }
  const std::shared_ptr<Allocator>& records() override { return records_; }
  Kernels& kernels() override { return *kernels_; }
  void SetShare(const CpuShare& share) override {
    if (share == share_) return;
    std::shared_ptr<ThreadReservation> threads;
    if (const int more = TeamOf(share) - TeamOf(share_); more > 0)
      threads = std::make_shared<ThreadReservation>(more, StrCat("computing on cpu(", id_, ")"));
    share_ = share;
    stream_.Enqueue("another share of the cores", {}, [share, threads] {
      SetTeam(share);
      if (threads) threads->Release();
    });
  }

 private:
  const std::shared_ptr<Allocator> allocator_, records_;
  const std::unique_ptr<Kernels> kernels_;
  const int id_;
  CpuShare share_;    // with Devices' lock
  CpuStream stream_;  // last: drains before the kernels go
};

}  // namespace

void ForPieces(int64_t n, int64_t grain, FunctionRef<void(int64_t begin, int64_t end)> body) {
  ParallelFor(n, grain, body);
}

std::shared_ptr<Device> MakeCpuDevice(int id, const CpuShare& share, std::optional<bool> multiplies_bfloat16,
                                      const std::shared_ptr<Allocator>& memory) {
  return std::make_shared<CpuDevice>(id, share, multiplies_bfloat16, memory);
}

}  // namespace sluice
