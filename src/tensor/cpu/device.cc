// The device of cpu(i). Its stream is one thread, which runs the operations in the order in which
// they were enqueued; kernels divide their work among an OpenMP team of the context's share of
// threads, which belongs to that thread. Threads and memory are tried out before they are needed, on
// the thread that makes the device or changes its share, because libgomp and oneDNN crash without
// them. Any thread may call Enqueue and Drain; Devices calls SetShare with its mutex held.
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
#include "tensor/cpu/parallel.h"
#include "tensor/devices.h"
#include "tensor/kernels.h"

namespace sluice {
namespace {

// The most memory of freed arrays that the allocator keeps for the next ones.
constexpr size_t kKeptBytes = size_t{1} << 30;
constexpr size_t kLeastMemory = size_t{64} << 20;  // has to be available when a device is made

struct Operation {
  void Run() {
    std::exception_ptr error;
    try {
      for (const Event& event : after) event.Wait();
      work();
    } catch (...) {
      error = OfOperation(done.what(), std::current_exception());
    }
    work = nullptr;  // releases its arrays before a waiter for `done` continues
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
  // The call fails if the process has lost these cores meanwhile; the thread then runs where it did.
  static_cast<void>(sched_setaffinity(0, sizeof set, &set));
}

int TeamOf(const CpuShare& share) {
  return std::min(share.threads, omp_get_thread_limit());
}

// Makes the calling thread's malloc arena: a thread's first allocation maps 64 MiB. If that happened later,
// it could take the memory that onednn.cc has just found to be free for generated code.
void MakeMallocArena() {
  void* volatile some = std::malloc(1);  // volatile keeps the compiler from removing the pair of calls
  std::free(some);
}

// Starts the calling thread's OpenMP team of exactly the share's size. oneDNN divides its work among as many
// threads as it asks for; in a smaller team, part of the work would not be done.
void SetTeam(const CpuShare& share) {
  const int threads = TeamOf(share);
  omp_set_num_threads(threads);
#pragma omp parallel num_threads(threads)
  {
    MakeMallocArena();
    if (!share.cores.empty()) BindThisThread(share.cores);
  }
}

// Tries out, on the caller's thread, whether the system gives the threads and the memory for
// `share`; throws Error(kResourceExhausted) if not. Without threads libgomp would end the
// process, and without memory for its generated code oneDNN would write through a null pointer.
// SetTeam then starts the threads that are reserved.
ThreadReservation ReserveResources(int id, const CpuShare& share) {
  const std::string what_for = StrCat("computing on cpu(", id, ")");
  ThreadReservation threads(TeamOf(share), what_for);
  ReserveMemory(kLeastMemory, what_for);
  // libgomp's threads end by pthread_exit, which loads the library that unwinds stacks (libgcc_s),
  // and aborts if that fails. backtrace loads it now.
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
      // Operations of this stream have ended when this one starts; such an event matters only for its error.
      if (!event.Succeeded() && !(event.quiet() && event.stream() == this)) operation->after.push_back(event);
    }
    Event done = operation->done;
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
        stream_(id, share, ReserveResources(id, share), records_) {}
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
  CpuShare share_;    // the one that was set last
  CpuStream stream_;  // the last member: its destructor finishes the work before the kernels are destroyed
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
