// MakeNcclReducer in builds with NCCL. A reduction first adds up what lies on one card, so that each card is
// one rank; a broadcast gives each card one array, from which further ones on it are copied. Stores call the
// reducer on the program's threads; the operations run on the cards' streams for them (Device::collective).
// Invariant: all parts of an operation are enqueued with Devices::collective_mutex held, so all streams have
// the operations in one order, and no two operations wait for each other.
#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_set>
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

// One sum or broadcast between cards, by rank: the arrays of a rank are null handles where it has none.
struct ArrayCollective {
  // The array that all of its arrays are like.
  const NDArray& model() const { return kind == Collective::Kind::kReduce ? receives[root] : sends[root]; }
  size_t bytes() const { return static_cast<size_t>(model().size()) * SizeOf(model().dtype()); }
  bool Writes(size_t rank) const {
    return receives[rank].valid() && !(sends[rank].valid() && sends[rank].SharesStorage(receives[rank]));
  }
  Collective operation() const {
    return {.kind = kind,
            .type = TypeOf(model().dtype()),
            .count = static_cast<size_t>(model().size()),
            .root = static_cast<int>(root),
            .parts = std::vector<Collective::Part>(cards.size())};
  }

  Collective::Kind kind;
  std::vector<int> cards;
  size_t root;  // its rank
  std::vector<NDArray> sends, receives;
};

// Collectives of the same cards that are launched together.
using CollectiveGroup = std::vector<const ArrayCollective*>;
constexpr size_t kMostBytesOfGroup = size_t{32} << 20;
// With Communicators' 64 groups under way, fewer than a stream's queue has places, should each be a kernel.
constexpr size_t kMostOfGroup = 12;

std::vector<CollectiveGroup> GroupsOf(const std::vector<ArrayCollective>& collectives) {
  std::vector<CollectiveGroup> groups;
  for (const ArrayCollective& one : collectives) {
    const auto last = std::find_if(groups.rbegin(), groups.rend(), [&](const CollectiveGroup& group) {
      return group.front()->cards == one.cards;
    });
    size_t bytes = one.bytes();
    bool fits = last != groups.rend() && last->size() < kMostOfGroup;
    for (size_t i = 0; fits && i < last->size(); ++i) {
      bytes += (*last)[i]->bytes();
      fits = bytes <= kMostBytesOfGroup;
    }
    fits ? last->push_back(&one) : groups.push_back({&one});
  }
  return groups;
}

// One card's part of a group, as work on its stream. A stream drops work that it does not run, since
// something before it has failed.
class Part {
 public:
  Part(std::shared_ptr<GroupLaunch> launch, size_t rank, const CollectiveGroup& group, Events after)
      : launch_(std::move(launch)), rank_(rank), after_(std::move(after)) {
    for (const ArrayCollective* one : group) {
      const NDArray &send = one->sends[rank], &receive = one->receives[rank];
      arrays_.push_back({send, receive, DataOf(send), DataOf(receive)});
    }
  }
  ~Part() {
    if (launch_ != nullptr) launch_->Cancel(Reason());
  }
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;

  void Run(cuda::CudaKernels& kernels) {
    const std::shared_ptr<GroupLaunch> launch = std::exchange(launch_, nullptr);
    try {
      std::vector<Collective::Part> parts;
      for (const Arrays& arrays : arrays_)
        parts.push_back({arrays.from.get(), arrays.to.get(), kernels.stream()});
      launch->AddParts(rank_, parts);
    } catch (...) {
      launch->Cancel(std::current_exception());
      throw;
    }
    kernels.SetLateError([launch] { return launch->LateError(); });
  }

 private:
  struct Arrays {
    NDArray send, receive;  // null handles where the part has none
    internal::Data<std::byte> from, to;
  };
  static internal::Data<std::byte> DataOf(const NDArray& array) {
    return array.valid() ? internal::DataOf<std::byte>(array) : nullptr;
  }
  std::exception_ptr Reason() const {
    for (const Event& event : after_)
      if (std::exception_ptr error = event.KnownError()) return error;
    const NDArray& here = arrays_.front().send.valid() ? arrays_.front().send : arrays_.front().receive;
    return std::make_exception_ptr(
        Error(ErrorCode::kUnavailable,
              StrCat(here.context(), " could not begin its part of an operation of several cards")));
  }

  std::shared_ptr<GroupLaunch> launch_;  // null once the parts have been added
  const size_t rank_;
  std::vector<Arrays> arrays_;
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

  void BroadcastAll(std::span<const Copies> all, FunctionRef<void(size_t)> enqueued) override {
    std::vector<ArrayCollective> collectives;
    std::vector<std::pair<NDArray, NDArray>> rest;  // from and to
    std::unordered_set<const void*> written;        // memory
    size_t first = 0;                               // the first of `all` that is not enqueued
    const auto enqueue_up_to = [&](size_t end) {
      EnqueueAll("broadcast by NCCL", std::exchange(collectives, {}));
      for (const auto& [from, to] : std::exchange(rest, {})) {
        const Copies one{&from, {&to, 1}};
        Reducer::BroadcastAll({&one, 1}, [](size_t) {});
      }
      while (first < end) enqueued(first++);
      written.clear();
    };
    for (size_t i = 0; i < all.size(); ++i) {
      const auto is_written = [&](const NDArray& array) { return written.contains(array.storage().get()); };
      if (is_written(*all[i].value) || std::ranges::any_of(all[i].outs, is_written)) enqueue_up_to(i);
      for (const NDArray& out : all[i].outs) written.insert(out.storage().get());
      AddCopies(all[i], &collectives, &rest);
    }
    enqueue_up_to(all.size());
  }

  void RequireContext(const NDArray& value) const override {
    if (!OnHost(value)) return;
    throw Error(ErrorCode::kInvalidArgument,
                StrCat("the store type 'nccl' sums arrays on GPUs, and one of them is on ", value.context(),
                       "; use 'device' or 'local'"));
  }

 protected:
  void DoReduce(std::span<const Reduction> sums) override {
    std::vector<ArrayCollective> collectives;
    std::vector<std::pair<NDArray, const Reduction*>> rest;  // sums that are not those asked for yet
    const auto enqueue = [&] {
      EnqueueAll("sum of gradients by NCCL", std::exchange(collectives, {}));
      for (const auto& [total, sum] : std::exchange(rest, {})) {
        if (sum->exponent > 0) Scale(total, sum->exponent);
        total.CopyTo(sum->out);
      }
    };
    size_t bytes = 0;
    for (const Reduction& sum : sums) {
      std::map<int, std::vector<NDArray>> by_card;
      for (const NDArray& value : sum.values) by_card[value.context().id].push_back(value);
      NDArray* const out = sum.out;
      const bool there = !OnHost(*out) && by_card.contains(out->context().id);
      if (by_card.size() == 1 && there) {
        EnqueueSumOnGpu(sum.values, out, sum.exponent);
        continue;
      }
      NDArray total = *out;
      if (!there || IsHalf(out->dtype())) {
        const DType dtype = IsHalf(out->dtype()) ? DType::kFloat32 : out->dtype();
        total = NDArray::Empty(out->shape(), there ? out->context() : gpu(by_card.begin()->first), dtype);
        rest.emplace_back(total, &sum);
      }
      AddSum(by_card, total, &collectives);
      bytes += static_cast<size_t>(total.size()) * SizeOf(total.dtype());
      if (bytes < kMostBytesOfGroup) continue;
      enqueue();  // memory of sums that nobody else holds is given back
      bytes = 0;
    }
    enqueue();
  }

 private:
  // Adds the collective that makes `out` the sum of all arrays, which are converted to its dtype first. One
  // of the cards has `out`.
  static void AddSum(const std::map<int, std::vector<NDArray>>& by_card, const NDArray& out,
                     std::vector<ArrayCollective>* collectives) {
    ArrayCollective sum{
        .kind = Collective::Kind::kReduce, .cards = {}, .root = 0, .sends = {}, .receives = {}};
    for (const auto& [card, arrays] : by_card) {
      std::vector<NDArray> terms;
      for (const NDArray& array : arrays) {
        terms.push_back(array);
        if (array.dtype() == out.dtype()) continue;
        terms.back() = NDArray::Empty(array.shape(), array.context(), out.dtype());
        array.CopyTo(&terms.back());
      }
      sum.sends.push_back(terms.front());
      if (terms.size() > 1) {
        sum.sends.back() = NDArray::Empty(out.shape(), gpu(card), out.dtype());
        EnqueueSumOnGpu(terms, &sum.sends.back(), 0);
      }
      const bool is_root = out.context() == gpu(card);
      if (is_root) sum.root = sum.cards.size();
      sum.receives.push_back(is_root ? out : NDArray());
      sum.cards.push_back(card);
    }
    if (sum.cards.size() == 1) return sum.sends.front().CopyTo(&sum.receives.front());
    collectives->push_back(std::move(sum));
  }

  static void Scale(const NDArray& sum, uint32_t exponent) {
    const float factor = std::ldexp(1.0f, -static_cast<int>(exponent));
    internal::Launch("scale of a sum", sum.context(), {sum}, {sum},
                     [to = internal::DataOf<float>(sum), n = sum.size(), factor](Kernels& k) {
                       k.Affine({.a = to, .scale = factor, .shift = 0, .out = to, .n = n});
                     });
  }

  // Adds the collective that brings the value to the other cards of `copies`, and to `rest` what is copied
  // from there, and from the value, afterwards.
  static void AddCopies(const Copies& copies, std::vector<ArrayCollective>* collectives,
                        std::vector<std::pair<NDArray, NDArray>>* rest) {
    const NDArray& value = *copies.value;
    std::map<int, NDArray> firsts;  // the first array of each other card
    std::vector<NDArray> others;
    for (const NDArray& out : copies.outs) {
      const bool by_nccl = !OnHost(out) && !OnHost(value) && out.context() != value.context() &&
                           out.dtype() == value.dtype() && firsts.emplace(out.context().id, out).second;
      if (!by_nccl) others.push_back(out);
    }
    for (const NDArray& out : others) {
      const auto first = OnHost(out) ? firsts.end() : firsts.find(out.context().id);
      rest->emplace_back(first == firsts.end() ? value : first->second, out);
    }
    if (!firsts.empty()) collectives->push_back(BroadcastTo(value, std::move(firsts)));
  }

  static ArrayCollective BroadcastTo(const NDArray& value, std::map<int, NDArray> firsts) {
    ArrayCollective copies{
        .kind = Collective::Kind::kBroadcast, .cards = {}, .root = 0, .sends = {}, .receives = {}};
    firsts.emplace(value.context().id, value);
    for (const auto& [card, array] : firsts) {
      const bool is_root = card == value.context().id;
      if (is_root) copies.root = copies.cards.size();
      copies.sends.push_back(is_root ? value : NDArray());
      copies.receives.push_back(array);  // the root's is `value`, which stays as it is
      copies.cards.push_back(card);
    }
    return copies;
  }

  void EnqueueAll(const char* what, const std::vector<ArrayCollective>& collectives) {
    for (const CollectiveGroup& group : GroupsOf(collectives)) Enqueue(what, group);
  }

  // Every part waits for what any of them waits for, so that none begins where another fails before.
  void Enqueue(const char* what, const CollectiveGroup& group) {
    const std::vector<int>& cards = group.front()->cards;
    const std::shared_ptr<Communicators> communicators = Of(cards);
    std::vector<Collective> operations;
    Events after;
    for (const ArrayCollective* one : group) {
      operations.push_back(one->operation());
      for (const NDArray& send : one->sends)
        if (send.valid()) after.push_back(ReadyToRead(send));
      for (size_t rank = 0; rank < cards.size(); ++rank) {
        if (!one->Writes(rank)) continue;
        for (const Event& use : PendingUses(one->receives[rank])) after.push_back(use);
      }
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
    const auto launch = std::make_shared<GroupLaunch>(communicators, number, std::move(operations));
    std::vector<std::shared_ptr<Part>> parts;
    for (size_t rank = 0; rank < cards.size(); ++rank)
      parts.push_back(std::make_shared<Part>(launch, rank, group, after));
    for (size_t rank = 0; rank < cards.size(); ++rank) {
      auto& kernels = dynamic_cast<cuda::CudaKernels&>(streams[rank].kernels);
      ends.push_back(streams[rank].stream.Enqueue(
          what, after, [part = std::exchange(parts[rank], nullptr), &kernels] { part->Run(kernels); }));
      for (const ArrayCollective* one : group) {
        if (one->sends[rank].valid()) AddReader(one->sends[rank], ends.back());
        if (NDArray receive = one->receives[rank]; one->Writes(rank)) SetWriter(receive, ends.back());
      }
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
