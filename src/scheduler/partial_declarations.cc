#include "scheduler/partial_declarations.h"

namespace sluice::scheduler {

Status PartialDeclarations::Add(uint64_t sender, const wire::DeclareKeys& request, const std::string& who,
                                JobKeyTable* table) {
  const wire::DeclareKeys::Part& part = request.part;
  Call& call = newest_[sender];
  if (part.call < call.number) return Status::Ok();  // a delayed part of an earlier call
  if (part.call > call.number) call = {part.call, {request.mode, {}}, std::nullopt};
  if (call.outcome) return *call.outcome;
  std::vector<wire::KeySpec>& keys = call.declared.keys;
  if (part.first < keys.size()) return Status::Ok();  // repeated
  if (part.first > keys.size() || part.total > kMostKeys || request.keys.empty() ||
      request.keys.size() > part.total - part.first || request.mode != call.declared.mode) {
    return Fail(ErrorCode::kInvalidArgument, who, " declares keys ", part.first, " to ",
                part.first + request.keys.size(), " of ", part.total, " after ", keys.size(),
                "; a call has at most ", kMostKeys, ", in order and of one mode");
  }
  keys.insert(keys.end(), request.keys.begin(), request.keys.end());
  if (keys.size() < part.total) return Status::Ok();
  const auto ids = table->Declare(call.declared, who);
  call.declared = {};
  call.outcome = ids ? Status::Ok() : Status(ids.failure());
  return *call.outcome;
}

}  // namespace sluice::scheduler
