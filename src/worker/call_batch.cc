// ClientLoop and CallBatch: from the caller's thread to the client's loop. Invariant: each event that is
// handed over is completed once, by the client on the loop, or here when the loop has ended or there is no
// memory for the task. Stores and the issuer call this, the issuer from threads that complete arrays as well.
#include "worker/call_batch.h"

#include <algorithm>

namespace sluice::worker {
namespace {

bool PostTask(transport::Loop& loop, transport::Loop::Task&& task, bool may_run_inline) {
  return may_run_inline ? loop.PostOrRun(std::move(task)) : loop.Post(std::move(task));
}

void SubmitNow(Client& client, Time now, std::shared_ptr<Operation> op, Duration timeout, const Event& done,
               transport::Network& network) {
  op->deadline = DeadlineOf(now, timeout);
  op->done = EventCompleter{done};
  client.Submit(now, std::move(op), network);
}

}  // namespace

void ClientLoop::Submit(std::shared_ptr<Operation> op, Duration timeout, const Event& done,
                        bool may_run_inline) const {
  auto task = [client = client, op = std::move(op), timeout, done](Time now,
                                                                   transport::Network& network) mutable {
    SubmitNow(*client, now, std::move(op), timeout, done, network);
  };
  static_assert(transport::Loop::Task::kFits<decltype(task)>);
  if (!PostTask(*loop, std::move(task), may_run_inline)) CompleteAbandoned(done);
}

void ClientLoop::Fail(const std::exception_ptr& error, const Event& done) const {
  done.Complete(error);
  loop->Post([](Time, transport::Network&) {});
}

void ClientLoop::Run(ControlCall&& call, const Event& done, bool may_run_inline) const {
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

void CallBatch::Add(std::shared_ptr<Operation> op, Duration timeout, const Event& done) {
  if (keys_ < 2) return to_.Submit(std::move(op), timeout, done, may_run_inline_);
  if (collected_ == nullptr) {
    const MemoryOf<QueuedOperation> memory(records_);
    collected_ = std::allocate_shared<List>(memory, memory);
    collected_->reserve(keys_);
  }
  collected_->push_back({std::move(op), timeout, done});
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
  Add(open.batch.Take(), open.timeout, open.batch.done());
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
  const std::shared_ptr<List> collected = std::exchange(collected_, nullptr);
  if (collected == nullptr) return;
  std::exception_ptr error;
  try {
    const auto task = [client = to_.client, collected](Time now, transport::Network& network) {
      client->RunAsBatch(now, network, [&] {
        for (QueuedOperation& each : *collected)
          SubmitNow(*client, now, std::move(each.op), each.timeout, each.done, network);
      });
    };
    if (PostTask(*to_.loop, task, may_run_inline_)) return;
  } catch (...) {
    error = std::current_exception();
  }
  for (const QueuedOperation& each : *collected)
    error ? each.done.Complete(error) : CompleteAbandoned(each.done);
}

}  // namespace sluice::worker
