// A worker program in which one worker keeps the others waiting:
//
//   wait_probe WHAT [TIMEOUT]
//   wait_probe large MIB
//
// WHAT is init, rows, round, pull, set, barrier, agree or optimizer. One worker reads its standard input to
// the end before this operation; the others wait for it, at most for TIMEOUT seconds, where that is given
// (KVStore::SetTimeout).
// The second form makes a key of MIB MiB, and prints the peak memory of the worker and of server 0.
#include <sys/resource.h>

#include <cstdlib>
#include <iostream>
#include <limits>
#include <string>

#include "base/strings.h"
#include "sluice/error.h"
#include "sluice/job.h"
#include "sluice/kvstore.h"
#include "sluice/runtime.h"

namespace {

using namespace sluice;

class Probe {
 public:
  // `number` is MIB, TIMEOUT, or 0.
  Probe(std::string what, double number)
      : what_(std::move(what)),
        number_(number),
        kv_(KVStore::Create(what_ == "optimizer" || what_ == "set" ? "dist_async" : "dist_sync")) {
    if (what_ == "large" || number == 0) return;
    kv_->SetTimeout(std::chrono::milliseconds(static_cast<int64_t>(1000 * number)));
  }

  void Run() {
    const NDArray weight({1000});
    if (what_ == "init") WaitForTheTestOn(0);
    kv_->Init("w", weight);
    if (what_ == "rows") WaitForRows();
    if (what_ == "large") MakeALargeKey();
    if (what_ == "round") WaitForARound();
    if (what_ == "pull") WaitForAPull();
    if (what_ == "set") {
      WaitForTheTestOn(0);
      kv_->Set("w", weight);
      kv_->WaitAll();
    }
    if (what_ == "barrier") {
      WaitForTheTestOn(1);
      kv_->Barrier();
    }
    if (what_ == "agree") {
      WaitForTheTestOn(1);
      kv_->Agree("word");
    }
    if (what_ == "optimizer") {
      WaitForTheTestOn(0);
      kv_->SetOptimizer({.kind = OptimizerKind::kAccumulate});
    }
    std::cout << StrCat("worker ", kv_->rank(), " is done\n") << std::flush;
  }

 private:
  void WaitForTheTestOn(int rank) const {
    if (kv_->rank() == rank) std::cin.ignore(std::numeric_limits<std::streamsize>::max());
  }
  void WaitForARound() const {
    NDArray weight({1000});
    weight.Fill(1);
    WaitForTheTestOn(1);
    kv_->PushPull("w", weight);
    weight.WaitToRead();
    if (const float sum = weight.ToVector().front(); sum != static_cast<float>(kv_->num_workers()))
      throw Error(ErrorCode::kDataLoss, StrCat("the round brought ", sum));
  }
  void MakeALargeKey() const {
    NDArray weight({static_cast<int64_t>(number_) << 18});
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
    WaitForTheTestOn(1);
    kv_->Push("w", weight);
    kv_->Pull("w", &weight);
    weight.WaitToRead();
  }
  void WaitForRows() const {
    kv_->InitRowSparse("table", {50, 4});
    const std::vector<int64_t> ids = {7, 8};
    NDArray rows({2, 4});
    const RowSparse some{NDArray::From(std::span<const int64_t>(ids), {2}), rows};
    WaitForTheTestOn(1);
    kv_->PushRowSparse("table", some);
    kv_->RowSparsePull("table", some.ids, &rows);
    rows.WaitToRead();
  }

  const std::string what_;
  const double number_;
  const std::shared_ptr<KVStore> kv_;
};

}  // namespace

int main(int argc, char** argv) {
  return RunProgram(argc, argv, [&] {
    if (argc < 2) throw Error(ErrorCode::kInvalidArgument, "usage: wait_probe WHAT [TIMEOUT]");
    Probe(argv[1], argc > 2 ? std::atof(argv[2]) : 0).Run();
  });
}
