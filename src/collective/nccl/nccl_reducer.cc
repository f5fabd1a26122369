// MakeNcclReducer in builds with NCCL. A reduction first adds up what lies on one card, so that each card is
// one rank; a broadcast gives each card one array, from which further ones on it are copied. Stores call the
// reducer on the program's threads; the operations run on the cards' streams for them (Device::collective).
// Invariant: all parts of an operation are enqueued with Devices::collective_mutex held, so all streams have
// the operations in one order, and no two operations wait for each other.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "base/strings.h"
#include "collective/gpu_sum.h"
#include "collective/least_loaded.h"
#include "collective/nccl/group_launch.h"
#include "collective/reducer.h"
#include "sluice/error.h"
#include "tensor/cuda/kernels.h"
#include "tensor/storage.h"

namespace sluice::collective {
namespace {

ncclDataType_t TypeOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
      return ncclFloat64;
    case DType::kInt32:
      return ncclInt32;
    case DType::kInt64:
      return ncclInt64;
    case DType::kUInt8:
      return ncclUint8;
    case DType::kFloat16:
      return ncclFloat16;
    case DType::kBFloat16:
      return ncclBfloat16;
    case DType::kFloat32:
      return ncclFloat32;
  }
  return ncclFloat32;
}

bool IsHalf(DType dtype) {
  return dtype == DType::kFloat16 || dtype == DType::kBFloat16;
}

// One card's part of an operation, as work on its stream. A stream drops work that it does not run, since
// something before it has failed.
class Part {
 public:
  Part(std::shared_ptr<GroupLaunch> launch, size_t rank, NDArray send, NDArray receive, Events after)
      : launch_(std::move(launch)),
        rank_(rank),
        arrays_{std::move(send), std::move(receive)},
        send_(DataOf(arrays_[0])),
        receive_(DataOf(arrays_[1])),
        after_(std::move(after)) {}
  ~Part() {
    if (launch_ != nullptr) launch_->Cancel(Reason());
  }
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;

  void Run(cuda::CudaKernels& kernels) {
    const std::shared_ptr<GroupLaunch> launch = std::exchange(launch_, nullptr);
    try {
      launch->AddPart(rank_, {send_.get(), receive_.get(), kernels.stream()});
    } catch (...) {
      launch->Cancel(std::current_exception());
      throw;
    }
    kernels.SetLateError([launch] { return launch->LateError(); });
  }

 private:
  static internal::Data<std::byte> DataOf(const NDArray& array) {
    return array.valid() ? internal::DataOf<std::byte>(array) : nullptr;
  }
  std::exception_ptr Reason() const {
    for (const Event& event : after_)
      if (std::exception_ptr error = event.KnownError()) return error;
    const NDArray& here = arrays_[arrays_[0].valid() ? 0 : 1];
    return std::make_exception_ptr(
        Error(ErrorCode::kUnavailable,
              StrCat(here.context(), " could not begin its part of an operation of several cards")));
  }

  std::shared_ptr<GroupLaunch> launch_;  // null once the part has been added
  const size_t rank_;
  const std::array<NDArray, 2> arrays_;  // null handles where the part has none
  const internal::Data<std::byte> send_, receive_;
  const Events after_;
};

class NcclReducer final : public Reducer {
 public:
  explicit NcclReducer(Duration most) : Reducer(EnqueueOn), nccl_(LoadNccl()), most_(most) {}
  ~NcclReducer() override {
    for (const auto& [cards, communicators] : communicators_) communicators->Close();
  }

  Context Place(const std::vector<Context>& contexts, uint64_t bytes) override {
    return places_.Place(contexts, bytes);
  }

  void Broadcast(const NDArray& value, const std::vector<NDArray>& outs) override {
    std::map<int, NDArray> firsts;  // the first array of each other card
    std::vector<NDArray> others;
    for (const NDArray& out : outs) {
      const bool by_nccl = !OnHost(out) && !OnHost(value) && out.context() != value.context() &&
                           out.dtype() == value.dtype() && firsts.emplace(out.context().id, out).second;
      if (!by_nccl) others.push_back(out);
    }
    if (!firsts.empty()) BroadcastTo(value, firsts);
    for (const NDArray& out : others) {
      const auto first = OnHost(out) ? firsts.end() : firsts.find(out.context().id);
      Reducer::Broadcast(first == firsts.end() ? value : first->second, {out});
    }
  }

 protected:
  void DoReduce(const std::vector<NDArray>& values, NDArray* out, uint32_t exponent) override {
    std::map<int, std::vector<NDArray>> by_card;
    for (const NDArray& value : values) {
      if (OnHost(value)) {
        throw Error(ErrorCode::kInvalidArgument,
                    StrCat("the store type 'nccl' sums arrays on GPUs, and one of them is on ",
                           value.context(), "; use 'device' or 'local'"));
      }
      by_card[value.context().id].push_back(value);
    }
    const bool there = !OnHost(*out) && by_card.contains(out->context().id);
    if (by_card.size() == 1 && there) return EnqueueSumOnGpu(values, out, exponent);
    if (there && !IsHalf(out->dtype())) return Sum(by_card, *out);
    const DType dtype = IsHalf(out->dtype()) ? DType::kFloat32 : out->dtype();
    NDArray sum = NDArray::Empty(out->shape(), there ? out->context() : gpu(by_card.begin()->first), dtype);
    Sum(by_card, sum);
    if (exponent > 0) Scale(sum, exponent);
    sum.CopyTo(out);
  }

 private:
  // Enqueues out = the sum of all arrays, which are converted to out's dtype first. One of the cards has
  // `out`.
  void Sum(const std::map<int, std::vector<NDArray>>& by_card, const NDArray& out) {
    std::vector<NDArray> sends, receives;
    std::vector<int> cards;
    for (const auto& [card, arrays] : by_card) {
      std::vector<NDArray> terms;
      for (const NDArray& array : arrays) {
        terms.push_back(array);
        if (array.dtype() == out.dtype()) continue;
        terms.back() = NDArray::Empty(array.shape(), array.context(), out.dtype());
        array.CopyTo(&terms.back());
      }
      sends.push_back(terms.front());
      if (terms.size() > 1) {
        sends.back() = NDArray::Empty(out.shape(), gpu(card), out.dtype());
        EnqueueSumOnGpu(terms, &sends.back(), 0);
      }
      receives.push_back(out.context() == gpu(card) ? out : NDArray());
      cards.push_back(card);
    }
    if (cards.size() == 1) return sends.front().CopyTo(&receives.front());
    Enqueue("sum of gradients by NCCL", Collective::Kind::kReduce, cards, out.context().id, sends, receives);
  }

  static void Scale(const NDArray& sum, uint32_t exponent) {
    const float factor = std::ldexp(1.0f, -static_cast<int>(exponent));
    internal::Launch("scale of a sum", sum.context(), {sum}, {sum},
                     [to = internal::DataOf<float>(sum), n = sum.size(), factor](Kernels& k) {
                       k.Affine({.a = to, .scale = factor, .shift = 0, .out = to, .n = n});
                     });
  }

  void BroadcastTo(const NDArray& value, std::map<int, NDArray> firsts) {
    const int root = value.context().id;
    firsts.emplace(root, value);
    std::vector<NDArray> sends, receives;
    std::vector<int> cards;
    for (const auto& [card, array] : firsts) {
      sends.push_back(card == root ? value : NDArray());
      receives.push_back(array);  // the root's is `value`, which stays as it is
      cards.push_back(card);
    }
    Enqueue("broadcast by NCCL", Collective::Kind::kBroadcast, cards, root, sends, receives);
  }

  // The arrays of a rank are null handles where it has none. Every part waits for what any of them waits for,
  // so that none begins where another fails before.
  void Enqueue(const char* what, Collective::Kind kind, const std::vector<int>& cards, int root,
               const std::vector<NDArray>& sends, const std::vector<NDArray>& receives) {
    const std::shared_ptr<Communicators> communicators = Of(cards);
    const auto at_root = static_cast<size_t>(std::ranges::find(cards, root) - cards.begin());
    const NDArray& model = kind == Collective::Kind::kReduce ? receives[at_root] : sends[at_root];
    const Collective operation{.kind = kind,
                               .type = TypeOf(model.dtype()),
                               .count = static_cast<size_t>(model.size()),
                               .root = static_cast<int>(at_root),
                               .parts = std::vector<Collective::Part>(cards.size())};
    Events after;
    for (const NDArray& send : sends)
      if (send.valid()) after.push_back(ReadyToRead(send));
    const auto writes = [&](size_t rank) {
      return receives[rank].valid() && !(sends[rank].valid() && sends[rank].SharesStorage(receives[rank]));
    };
    for (size_t rank = 0; rank < cards.size(); ++rank) {
      if (!writes(rank)) continue;
      for (const Event& use : PendingUses(receives[rank])) after.push_back(use);
    }
    std::vector<DeviceStream> streams;
    for (const int card : cards) streams.push_back(Devices::Default()->Get(gpu(card))->collective());
    const MutexLock order(Devices::Default()->collective_mutex());
    const uint64_t number = communicators->Add();
    struct WatchAtEnd {  // watches those parts that were enqueued
      ~WatchAtEnd() { communicators.Watch(number, std::move(ends)); }
      Communicators& communicators;
      const uint64_t number;
      Events ends;
    } watch{*communicators, number, {}};
    Events& ends = watch.ends;
    const auto launch = std::make_shared<GroupLaunch>(communicators, number, operation);
    std::vector<std::shared_ptr<Part>> parts;
    for (size_t rank = 0; rank < cards.size(); ++rank)
      parts.push_back(std::make_shared<Part>(launch, rank, sends[rank], receives[rank], after));
    for (size_t rank = 0; rank < cards.size(); ++rank) {
      auto& kernels = dynamic_cast<cuda::CudaKernels&>(streams[rank].kernels);
      ends.push_back(streams[rank].stream.Enqueue(
          what, after, [part = std::exchange(parts[rank], nullptr), &kernels] { part->Run(kernels); }));
      if (sends[rank].valid()) AddReader(sends[rank], ends.back());
      if (NDArray receive = receives[rank]; writes(rank)) SetWriter(receive, ends.back());
    }
  }

  const std::shared_ptr<Communicators>& Of(const std::vector<int>& cards) {
    const auto found = communicators_.find(cards);
    if (found != communicators_.end()) return found->second;
    return communicators_.emplace(cards, std::make_shared<Communicators>(cards, nccl_, most_)).first->second;
  }

  const std::shared_ptr<const NcclLibrary> nccl_;
  const Duration most_;
  LeastLoaded places_;
  std::map<std::vector<int>, std::shared_ptr<Communicators>> communicators_;  // by their cards, in order
};

}  // namespace

std::unique_ptr<Reducer> MakeNcclReducer(Duration most) {
  return std::make_unique<NcclReducer>(most);
}

}  // namespace sluice::collective
