// The launch of operations on several cards, as one group of NCCL's.
#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/guarded.h"
#include "base/result.h"
#include "collective/nccl/communicators.h"

namespace sluice::collective {

// Each card's part of an operation is work on that card's stream, which begins when the stream is ready for
// it. NCCL takes all parts together, from one thread: the part that comes last launches the operation.
// Thread-safe.
class GroupLaunch {
 public:
  // Each of `operations` has a part without a stream for each card of `communicators`; `number` is what
  // Communicators::Add has returned.
  GroupLaunch(std::shared_ptr<Communicators> communicators, uint64_t number,
              std::vector<Collective> operations);

  // Called by the work of card `rank`, on its stream, with its part of each operation. Returns when they have
  // been launched. Throws what hinders that: the error of NCCL, or that of a part that does not come.
  void AddParts(size_t rank, std::span<const Collective::Part> parts);
  // A card's parts do not come, for this reason.
  void Cancel(const std::exception_ptr& why);
  // Returns what the operations have failed with after its launch, or null.
  std::exception_ptr LateError() const { return communicators_->ErrorOf(number_); }

 private:
  struct State {
    std::vector<Collective> operations;
    size_t added = 0;                // cards
    bool decided = false;            // they were launched, or will not be
    std::optional<Failure> failure;  // why not
  };
  void Decide(std::optional<Failure> failure);

  const std::shared_ptr<Communicators> communicators_;
  const uint64_t number_;
  Guarded<State> state_;
};

}  // namespace sluice::collective
