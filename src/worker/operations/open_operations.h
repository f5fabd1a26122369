// The operations that have not ended, from their first part in a sequencer to the call of their callback.
// Whatever ends an operation ends it here, once: its last part, its deadline, a refusal, the end of the
// job.
//
// Thread safety: the client's loop calls everything here.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "worker/connection/connection_table.h"
#include "worker/operations/completion_queue.h"
#include "worker/operations/declared_keys.h"
#include "worker/operations/wait_reporter.h"

namespace sluice::worker {

class OpenOperations {
 public:
  // `records` is the memory of operations. All arguments must outlive this object.
  OpenOperations(std::shared_ptr<Allocator> records, DeclaredKeys& keys, ConnectionTable& connections,
                 CompletionQueue& completions, WaitReporter& waits);
  OpenOperations(const OpenOperations&) = delete;
  OpenOperations& operator=(const OpenOperations&) = delete;
  ~OpenOperations();

  // Makes an operation on one key; it is not open yet.
  std::shared_ptr<Operation> New(OpKind kind, uint32_t key) const;
  // Makes one operation for each key of `op`, with its share of the source. `op.done` is called when all
  // have ended, with the first failure among them.
  std::vector<std::shared_ptr<Operation>> SplitPerKey(Operation& op) const;
  // Opens the operation, whose fields `opened`, `deadline` and `parts_left` are set.
  void Open(const std::shared_ptr<Operation>& op);
  // The next number in the order of issue, of an operation or a part.
  uint64_t TakeOrder() { return next_order_++; }
  const std::shared_ptr<Allocator>& records() const { return records_; }

  // Ends a part, and with its last part the operation.
  void FinishPart(const PartOpPtr& part);
  // Ends the operation with `status`, unless it has ended, and queues its callbacks. After a failure its
  // parts no longer hold up later operations. The operation stays listed until EraseFinished.
  void Finish(Operation& op, const Status& status);
  void EraseFinished();
  // Ends the operations whose deadlines have passed.
  void Expire(Time now);
  // Ends those that read; a push that has not arrived everywhere goes on as a plain push.
  void FinishReads(const Failure& failure);
  void FinishAll(const Failure& failure);
  // Makes an operation on several keys one for each, so that a failure of one key does not end the others.
  void SplitUnfinished(std::shared_ptr<Operation> op);

  // Whether the servers have everything that was pushed or stored.
  bool AllStored() const { return FirstUnstored() == nullptr; }
  // Names an operation of which the servers may lack data, and what it waits for; only if there is one.
  std::string DescribeUnstored() const;
  Time NextTimer() const { return earliest_deadline_; }
  void ReportTo(WaitReporter& waits, Time now) const;
  // One line for each operation, up to a hundred.
  std::string DumpState() const;
  // Bytes copied to destinations, and into small-key batches.
  uint64_t bytes_copied() const { return bytes_copied_; }
  void CountCopied(uint64_t bytes) { bytes_copied_ += bytes; }

 private:
  void DetachPush(const std::shared_ptr<Operation>& op);
  void DeliverAll(Operation& op);  // delivers op.kept
  void NoteDelay(const Operation& op);
  const Operation* FirstUnstored() const;

  const std::shared_ptr<Allocator> records_;
  DeclaredKeys& keys_;
  ConnectionTable& connections_;
  CompletionQueue& completions_;
  WaitReporter& waits_;
  RecordMap<uint64_t, std::shared_ptr<Operation>> operations_;  // by number
  Time earliest_deadline_ = Time::max();                        // a lower bound of the operations' deadlines
  uint64_t next_order_ = 1;
  uint64_t bytes_copied_ = 0;
};

}  // namespace sluice::worker
