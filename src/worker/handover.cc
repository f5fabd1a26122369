#include "worker/handover.h"

#include <algorithm>

namespace sluice::worker {
namespace {

bool Give(transport::Loop& loop, transport::Loop::Task&& task, bool alone) {
  return alone ? loop.PostOrRun(std::move(task)) : loop.Post(std::move(task));
}

}  // namespace

void ClientLoop::HandOver(Call&& call, const Event& done, bool alone) const {
  auto task = [client = client, call = std::move(call), done](Time now, transport::Network& network) mutable {
    call(*client, now, network, Completes{done});
  };
  static_assert(transport::Loop::Task::kFits<decltype(task)>);
  if (!Give(*loop, std::move(task), alone)) CompleteUnasked(done);
}

Handover::Handover(ClientLoop to, size_t keys, bool alone, const std::shared_ptr<Allocator>& records)
    : to_(std::move(to)),
      alone_(alone),
      records_(records),
      keys_(keys),
      bundles_(MemoryOf<OpenBundle>(records)) {}

void Handover::Add(Call&& call, const Event& done) {
  if (keys_ < 2) return to_.HandOver(std::move(call), done, alone_);
  if (asked_ == nullptr) {
    const MemoryOf<Asked> memory(records_);
    asked_ = std::allocate_shared<List>(memory, memory);
    asked_->reserve(keys_);
  }
  asked_->push_back({std::move(call), done});
}

Bundle* Handover::BundleOf(uint32_t shard, size_t bytes) {
  const auto open = std::ranges::find(bundles_, shard, &OpenBundle::shard);
  if (open == bundles_.end()) return nullptr;
  if (open->bundle.HasRoomFor(bytes)) return &open->bundle;
  Close(*open);
  bundles_.erase(open);
  return nullptr;
}

Bundle& Handover::Open(uint32_t shard, Bundle bundle, Duration timeout) {
  return bundles_.emplace_back(OpenBundle{shard, std::move(bundle), timeout}).bundle;
}

void Handover::Close(OpenBundle& open) {
  auto args = std::allocate_shared<BundleArgs>(MemoryOf<BundleArgs>(records_), open.bundle.Take());
  auto call = [args, timeout = open.timeout](Client& client, Time now, transport::Network& network,
                                             const Completes& end) {
    client.Bundle(now, std::move(*args), DeadlineOf(now, timeout), end, network);
  };
  Add(std::move(call), open.bundle.done());
}

void Handover::HandOver() {
  for (OpenBundle& open : bundles_) {
    try {
      Close(open);
    } catch (...) {
      open.bundle.done().Complete(std::current_exception());
    }
  }
  bundles_.clear();
  const std::shared_ptr<List> asked = std::exchange(asked_, nullptr);
  if (asked == nullptr) return;
  std::exception_ptr error;
  try {
    const auto task = [client = to_.client, asked](Time now, transport::Network& network) {
      client->Together(now, network, [&] {
        for (Asked& each : *asked) each.call(*client, now, network, Completes{each.done});
      });
    };
    if (Give(*to_.loop, task, alone_)) return;
  } catch (...) {
    error = std::current_exception();
  }
  for (const Asked& each : *asked) error ? each.done.Complete(error) : CompleteUnasked(each.done);
}

}  // namespace sluice::worker
