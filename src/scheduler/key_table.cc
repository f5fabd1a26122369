#include "scheduler/key_table.h"

#include "base/strings.h"

namespace sluice::scheduler {
namespace {

std::string TextOf(const wire::KeySpec& spec, wire::SyncMode mode) {
  return StrCat(Name(spec.dtype), " ", spec.shape.ToString(), " (", wire::Name(mode), ")");
}

}  // namespace

Status KeyTable::Check(const wire::KeySpec& spec, wire::SyncMode mode, const std::string& who) const {
  const auto found = ids_.find(spec.name);
  if (found != ids_.end()) {
    const wire::KeyEntry& first = entries_[found->second];
    if (first.spec == spec && first.mode == mode) return Status::Ok();
    return Fail(ErrorCode::kAlreadyExists, "key ", wire::ToString(spec.name), ": ", who, " declares ",
                TextOf(spec, mode), ", but ", declared_by_[found->second], " declared ",
                TextOf(first.spec, first.mode));
  }
  if (!entries_.empty() && entries_.front().spec.name.index() != spec.name.index()) {
    return Fail(ErrorCode::kInvalidArgument, "key ", wire::ToString(spec.name),
                ": integer and string keys do not mix in one job; ", declared_by_.front(), " began with ",
                wire::ToString(entries_.front().spec.name));
  }
  return Status::Ok();
}

Result<std::vector<uint32_t>> KeyTable::Declare(const wire::DeclareKeys& request, const std::string& who) {
  std::map<wire::KeyName, const wire::KeySpec*> named;
  for (const wire::KeySpec& spec : request.keys) {
    if (Status status = Check(spec, request.mode, who); !status) return status.failure();
    if (const auto* before = named.emplace(spec.name, &spec).first->second; *before != spec) {
      return Fail(ErrorCode::kInvalidArgument, "key ", wire::ToString(spec.name), ": ", who, " declares ",
                  TextOf(*before, request.mode), " and ", TextOf(spec, request.mode), " at once");
    }
    if (spec.name.index() != request.keys.front().name.index()) {
      return Fail(ErrorCode::kInvalidArgument, who,
                  " declares integer and string keys together: ", wire::ToString(request.keys.front().name),
                  " and ", wire::ToString(spec.name));
    }
  }
  std::vector<uint32_t> ids;
  for (const wire::KeySpec& spec : request.keys) {
    const auto [it, is_new] = ids_.emplace(spec.name, static_cast<uint32_t>(entries_.size()));
    if (is_new) {
      entries_.push_back({.id = it->second,
                          .spec = spec,
                          .mode = request.mode,
                          .slices = placement_.Place(spec.shape.size(), spec.dtype),
                          .part_elements = placement_.PartElements(spec.dtype)});
      declared_by_.push_back(who);
    }
    ids.push_back(it->second);
  }
  return ids;
}

}  // namespace sluice::scheduler
