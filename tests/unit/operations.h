// Operations as tests give them to a worker's client. A test sets further fields before it submits them.
#pragma once

#include <memory>
#include <utility>

#include "worker/operation.h"

namespace sluice::testing {

inline std::shared_ptr<worker::Operation> OperationOf(worker::OpKind kind, uint32_t key,
                                                      worker::Callback done, Time deadline = Time::max()) {
  auto op = worker::NewOperation(HeapAllocator(), kind, key);
  op->done = std::move(done);
  op->deadline = deadline;
  return op;
}

inline std::shared_ptr<worker::Operation> PushOf(uint32_t key, Frame source, worker::Callback done) {
  auto op = OperationOf(worker::OpKind::kPush, key, std::move(done));
  op->source = std::move(source);
  return op;
}

inline std::shared_ptr<worker::Operation> PushPullOf(uint32_t key, Frame source,
                                                     worker::Destination destination, worker::Callback done,
                                                     Time deadline = Time::max()) {
  auto op = OperationOf(worker::OpKind::kPushPull, key, std::move(done), deadline);
  op->source = std::move(source);
  op->only().destination = std::move(destination);
  return op;
}

inline std::shared_ptr<worker::Operation> PullOf(uint32_t key, worker::Destination destination,
                                                 worker::Callback done, Time deadline = Time::max()) {
  auto op = OperationOf(worker::OpKind::kPull, key, std::move(done), deadline);
  op->only().destination = std::move(destination);
  return op;
}

// Stores a state of the optimiser and its number of updates.
inline std::shared_ptr<worker::Operation> StateOf(uint32_t key, uint32_t slot, uint64_t num_updates,
                                                  Frame source, worker::Callback done,
                                                  Time deadline = Time::max()) {
  auto op = OperationOf(worker::OpKind::kState, key, std::move(done), deadline);
  op->slot = slot;
  op->only().round = num_updates;
  op->source = std::move(source);
  return op;
}

}  // namespace sluice::testing
