#include "scheduler/job_key_table.h"

#include "base/strings.h"

namespace sluice::scheduler {
namespace {

std::string TextOf(const wire::KeySpec& spec, wire::SyncMode mode) {
  return StrCat(wire::DescribeType(spec), " (", wire::Name(mode), ")");
}

}  // namespace

Status JobKeyTable::CheckDeclaration(const wire::KeySpec& spec, wire::SyncMode mode,
                                     const std::string& who) const {
  const auto found = ids_.find({spec.store, spec.name});
  if (found != ids_.end()) {
    const wire::KeyEntry& first = entries_[found->second];
    if (first.spec == spec && first.mode == mode) return Status::Ok();
    return Fail(ErrorCode::kAlreadyExists, "key ", wire::ToString(spec), ": ", who, " declares ",
                TextOf(spec, mode), ", but ", declared_by_[found->second], " declared ",
                TextOf(first.spec, first.mode));
  }
  const auto first = first_.find(spec.store);
  if (first == first_.end() || entries_[first->second].spec.name.index() == spec.name.index())
    return Status::Ok();
  return Fail(ErrorCode::kInvalidArgument, "key ", wire::ToString(spec),
              ": integer and string keys do not mix in one store; ", declared_by_[first->second],
              " began with ", wire::ToString(entries_[first->second].spec));
}

Result<std::vector<uint32_t>> JobKeyTable::Declare(const wire::DeclareKeys& request, const std::string& who) {
  std::map<Name, const wire::KeySpec*> named;
  std::map<uint32_t, const wire::KeySpec*> first;  // by store
  for (const wire::KeySpec& spec : request.keys) {
    if (Status status = CheckDeclaration(spec, request.mode, who); !status) return status.failure();
    if (const auto* before = named.emplace(Name(spec.store, spec.name), &spec).first->second;
        *before != spec) {
      return Fail(ErrorCode::kInvalidArgument, "key ", wire::ToString(spec), ": ", who, " declares ",
                  TextOf(*before, request.mode), " and ", TextOf(spec, request.mode), " at once");
    }
    if (const auto* before = first.emplace(spec.store, &spec).first->second;
        before->name.index() != spec.name.index()) {
      return Fail(ErrorCode::kInvalidArgument, who,
                  " declares integer and string keys together: ", wire::ToString(*before), " and ",
                  wire::ToString(spec));
    }
  }
  std::vector<uint32_t> ids;
  for (const wire::KeySpec& spec : request.keys) {
    const auto [it, is_new] =
        ids_.emplace(Name(spec.store, spec.name), static_cast<uint32_t>(entries_.size()));
    if (is_new) {
      first_.emplace(spec.store, it->second);
      entries_.push_back(placement_.EntryOf(it->second, spec, request.mode));
      declared_by_.push_back(who);
    }
    ids.push_back(it->second);
  }
  return ids;
}

}  // namespace sluice::scheduler
