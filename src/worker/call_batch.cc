#include "worker/call_batch.h"

#include <algorithm>

namespace sluice::worker {
namespace {

bool PostTask(transport::Loop& loop, transport::Loop::Task&& task, bool may_run_inline) {
  return may_run_inline ? loop.PostOrRun(std::move(task)) : loop.Post(std::move(task));
}

}  // namespace

Call SubmitCall(std::shared_ptr<Operation> op, Duration timeout) {
  auto call = [op = std::move(op), timeout](Client& client, Time now, transport::Network& network,
                                            const EventCompleter& done) mutable {
    op->deadline = DeadlineOf(now, timeout);
    op->done = done;
    client.Submit(now, std::move(op), network);
  };
  static_assert(Call::kFits<decltype(call)>);
  return call;
}

void ClientLoop::Submit(Call&& call, const Event& done, bool may_run_inline) const {
  auto task = [client = client, call = std::move(call), done](Time now, transport::Network& network) mutable {
    call(*client, now, network, EventCompleter{done});
  };
  static_assert(transport::Loop::Task::kFits<decltype(task)>);
  if (!PostTask(*loop, std::move(task), may_run_inline)) CompleteAbandoned(done);
}

CallBatch::CallBatch(ClientLoop to, size_t keys, bool may_run_inline,
                     const std::shared_ptr<Allocator>& records)
    : to_(std::move(to)),
      may_run_inline_(may_run_inline),
      records_(records),
      keys_(keys),
      batches_(MemoryOf<OpenBatch>(records)) {}

void CallBatch::Add(Call&& call, const Event& done) {
  if (keys_ < 2) return to_.Submit(std::move(call), done, may_run_inline_);
  if (asked_ == nullptr) {
    const MemoryOf<Asked> memory(records_);
    asked_ = std::allocate_shared<List>(memory, memory);
    asked_->reserve(keys_);
  }
  asked_->push_back({std::move(call), done});
}

SmallKeyBatch* CallBatch::BatchOf(uint32_t shard, size_t bytes) {
  const auto open = std::ranges::find(batches_, shard, &OpenBatch::shard);
  if (open == batches_.end()) return nullptr;
  if (open->batch.HasRoomFor(bytes)) return &open->batch;
  Close(*open);
  batches_.erase(open);
  return nullptr;
}

SmallKeyBatch& CallBatch::Open(uint32_t shard, SmallKeyBatch batch, Duration timeout) {
  return batches_.emplace_back(OpenBatch{shard, std::move(batch), timeout}).batch;
}

void CallBatch::Close(OpenBatch& open) {
  Add(SubmitCall(open.batch.Take(), open.timeout), open.batch.done());
}

void CallBatch::Submit() {
  for (OpenBatch& open : batches_) {
    try {
      Close(open);
    } catch (...) {
      open.batch.done().Complete(std::current_exception());
    }
  }
  batches_.clear();
  const std::shared_ptr<List> asked = std::exchange(asked_, nullptr);
  if (asked == nullptr) return;
  std::exception_ptr error;
  try {
    const auto task = [client = to_.client, asked](Time now, transport::Network& network) {
      client->RunAsBatch(now, network, [&] {
        for (Asked& each : *asked) each.call(*client, now, network, EventCompleter{each.done});
      });
    };
    if (PostTask(*to_.loop, task, may_run_inline_)) return;
  } catch (...) {
    error = std::current_exception();
  }
  for (const Asked& each : *asked) error ? each.done.Complete(error) : CompleteAbandoned(each.done);
}

}  // namespace sluice::worker
