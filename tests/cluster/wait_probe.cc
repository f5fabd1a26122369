// A worker program in which one worker keeps the others waiting:
//
//   wait_probe WHAT SECONDS [TIMEOUT]
//
// WHAT is init, rows, round, pull, set, barrier, agree or optimizer. One worker sleeps for SECONDS before
// this operation; the others wait for it, at most for TIMEOUT seconds, where that is given
// (KVStore::SetTimeout).
// WHAT large makes a key of SECONDS MiB instead, and prints the peak memory of the worker and of server 0.
#include <sys/resource.h>

#include <cstdlib>
#include <iostream>
#include <thread>

#include "base/strings.h"
#include "sluice/error.h"
#include "sluice/job.h"
#include "sluice/kvstore.h"
#include "sluice/runtime.h"

namespace {

using namespace sluice;

class Probe {
 public:
  Probe(std::string what, double seconds, double timeout)
      : what_(std::move(what)),
        seconds_(seconds),
        kv_(KVStore::Create(what_ == "optimizer" || what_ == "set" ? "dist_async" : "dist_sync")) {
    if (timeout > 0) kv_->SetTimeout(std::chrono::milliseconds(static_cast<int64_t>(1000 * timeout)));
  }

  void Run() {
    const NDArray weight({1000});
    if (what_ == "init") SleepOn(0);
    kv_->Init("w", weight);
    if (what_ == "rows") WaitForRows();
    if (what_ == "large") MakeALargeKey();
    if (what_ == "round") WaitForARound();
    if (what_ == "pull") WaitForAPull();
    if (what_ == "set") {
      SleepOn(0);
      kv_->Set("w", weight);
      kv_->WaitAll();
    }
    if (what_ == "barrier") {
      SleepOn(1);
      kv_->Barrier();
    }
    if (what_ == "agree") {
      SleepOn(1);
      kv_->Agree("word");
    }
    if (what_ == "optimizer") {
      SleepOn(0);
      kv_->SetOptimizer({.kind = OptimizerKind::kAccumulate});
    }
    std::cout << StrCat("worker ", kv_->rank(), " is done\n") << std::flush;
  }

 private:
  void SleepOn(int rank) const {
    if (kv_->rank() == rank) std::this_thread::sleep_for(std::chrono::duration<double>(seconds_));
  }
  void WaitForARound() const {
    NDArray weight({1000});
    weight.Fill(1);
    SleepOn(1);
    kv_->PushPull("w", weight);
    weight.WaitToRead();
    if (const float sum = weight.ToVector().front(); sum != static_cast<float>(kv_->num_workers()))
      throw Error(ErrorCode::kDataLoss, StrCat("the round brought ", sum));
  }
  void MakeALargeKey() const {
    NDArray weight({static_cast<int64_t>(seconds_) << 18});
    weight.Fill(1);
    kv_->Init("large", weight);
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    std::cout << StrCat("worker ", usage.ru_maxrss >> 10, " MiB, server ",
                        JobCounters().at("server 0").at("max_rss_kb") >> 10, " MiB\n")
              << std::flush;
  }
  void WaitForAPull() const {
    NDArray weight({1000});
    SleepOn(1);
    kv_->Push("w", weight);
    kv_->Pull("w", &weight);
    weight.WaitToRead();
  }
  void WaitForRows() const {
    kv_->InitRowSparse("table", {50, 4});
    const std::vector<int64_t> ids = {7, 8};
    NDArray rows({2, 4});
    const RowSparse some{NDArray::From(std::span<const int64_t>(ids), {2}), rows};
    SleepOn(1);
    kv_->PushRowSparse("table", some);
    kv_->RowSparsePull("table", some.ids, &rows);
    rows.WaitToRead();
  }

  const std::string what_;
  const double seconds_;
  const std::shared_ptr<KVStore> kv_;
};

}  // namespace

int main(int argc, char** argv) {
  return RunProgram(argc, argv, [&] {
    if (argc < 3) throw Error(ErrorCode::kInvalidArgument, "usage: wait_probe WHAT SECONDS [TIMEOUT]");
    Probe(argv[1], std::atof(argv[2]), argc > 3 ? std::atof(argv[3]) : 0).Run();
  });
}
