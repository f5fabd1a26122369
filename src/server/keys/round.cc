// Round: the contributions of a round by worker rank.
//
// It keeps either the gradients themselves or, once SumKept was called, their sum and the gradients that came
// later. It has no thread and no clock of its own: Aggregator calls it, on the shard's loop.
#include "server/keys/round.h"

#include <algorithm>

namespace sluice::server {

void Round::Add(uint32_t rank, Contribution contribution) {
  if (by_rank_.size() <= rank) by_rank_.resize(rank + 1);
  if (by_rank_[rank]) doubled_.push_back(std::move(*by_rank_[rank]));
  by_rank_[rank] = std::move(contribution);
  ++kept_;
}

bool Round::Complete(const std::set<uint32_t>& live) const {
  return !live.empty() && std::all_of(live.begin(), live.end(), [this](uint32_t rank) { return Has(rank); });
}

Gradients Round::gradients() const {
  Gradients frames;
  frames.reserve(by_rank_.size());
  const auto add = [&frames](const Contribution& contribution) {
    if (contribution.gradient.data() != nullptr) frames.push_back(contribution.encoded());
  };
  for (const auto& contribution : by_rank_) {
    if (contribution) add(*contribution);
  }
  for (const Contribution& contribution : doubled_) add(contribution);
  return frames;
}

void Round::SumKept(DType dtype, size_t elements, const std::shared_ptr<Allocator>& memory) {
  SumOf(dtype, elements, memory).Add(gradients());
  DropKept();
}

void Round::SumAll(DType dtype, size_t elements, const std::shared_ptr<Allocator>& memory) {
  summed_ = SumOf(dtype, elements, memory).Take(gradients());
  DropKept();
}

kvstore::ExactSum& Round::SumOf(DType dtype, size_t elements, const std::shared_ptr<Allocator>& memory) {
  if (sum_ == nullptr) sum_ = std::make_unique<kvstore::ExactSum>(dtype, elements, memory);
  return *sum_;
}

void Round::DropKept() {
  for (auto& contribution : by_rank_)
    if (contribution) contribution->gradient = {};
  for (Contribution& contribution : doubled_) contribution.gradient = {};
  kept_ = 0;
}

void Round::Clear() {
  by_rank_.clear();
  doubled_.clear();
  kept_ = 0;
  sum_ = nullptr;
  summed_ = nullptr;
}

uint64_t Round::samples() const {
  uint64_t sum = 0;
  for (const auto& contribution : by_rank_) sum += contribution ? contribution->samples : 0;
  return sum;
}

bool Round::HasLeased() const {
  return std::ranges::any_of(by_rank_, [](const auto& c) { return c && c->gradient.leased(); });
}

std::optional<double> Round::divisor() const {
  for (const auto& contribution : by_rank_) {
    if (contribution) return contribution->divisor;
  }
  return std::nullopt;
}

Time Round::ReturnLeases(Time now) {
  Time next = Time::max();
  for (auto& contribution : by_rank_)
    if (contribution) next = std::min(next, contribution->ReturnLease(now));
  for (Contribution& contribution : doubled_) next = std::min(next, contribution.ReturnLease(now));
  return next;
}

std::vector<uint32_t> Round::Missing(const std::set<uint32_t>& live) const {
  std::vector<uint32_t> missing;
  std::copy_if(live.begin(), live.end(), std::back_inserter(missing),
               [this](uint32_t rank) { return !Has(rank); });
  return missing;
}

}  // namespace sluice::server
