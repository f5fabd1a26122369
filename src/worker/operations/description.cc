#include "worker/operations/description.h"

#include <algorithm>
#include <set>
#include <vector>

#include "base/strings.h"
#include "kvstore/membership/wait_reports.h"

namespace sluice::worker {
namespace {

// Whether messages about the operation name its round.
bool HasRound(const Operation& op) {
  return op.name == nullptr || op.keys[0].round > 0;
}

// Names what the earlier operations wait for: those that precede the
// operation in the sequencers of its parts.
std::string EarlierWaitingFor(const Operation& op, const DeclaredKeys& keys,
                              const ConnectionTable& connections) {
  for (const PerKeyOp& key_op : op.keys) {
    const DeclaredKey* key = keys.Find(key_op.key);
    if (key == nullptr) continue;
    for (const PartSequencer& sequencer : key->SequencersIn(op.range)) {
      for (const PartOpPtr& part : sequencer.ops()) {
        if (part->op.get() == &op) break;
        if (const std::string whom = WaitingFor(*part->op, keys, connections); whom != kEarlierOperations)
          return StrCat(kEarlierOperations, ", which wait for ", whom);
      }
    }
  }
  return kEarlierOperations;
}

}  // namespace

std::string Describe(const Operation& op, const DeclaredKeys& keys) {
  constexpr size_t kNamed = 3;
  const size_t count = op.keys.size();
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min(count, kNamed); ++i) {
    const DeclaredKey* key = keys.Find(op.keys[i].key);
    names.push_back(key == nullptr ? StrCat("number ", op.keys[i].key) : std::string(key->name.text()));
  }
  if (count > kNamed) names.push_back(StrCat(count - kNamed, " more"));
  const std::string what = StrCat(op.name != nullptr ? op.name : Name(op.kind),
                                  count > 1 ? " of keys " : " of key ", StrJoin(names));
  return HasRound(op) ? StrCat(what, ", round ", op.keys[0].round) : what;
}

std::string WaitingFor(const Operation& op, const DeclaredKeys& keys, const ConnectionTable& connections) {
  if (!op.waiting_for.empty()) return op.waiting_for;
  std::set<uint32_t> servers;
  keys.ForPartsOf(op, [&](const PartOp& part) {
    if (part.sent) servers.insert(connections[part.shard].server());
  });
  std::vector<std::string> names;
  for (const uint32_t server : servers) names.push_back(StrCat("server ", server));
  if (names.empty()) return kEarlierOperations;
  const std::string answer = StrCat(StrJoin(names), " to answer");
  return op.delayed_by.empty() ? answer
                               : StrCat(kEarlierOperations, ", which waited for ", op.delayed_by,
                                        ", and since then for ", answer);
}

Failure DeadlineFailure(const Operation& op, const DeclaredKeys& keys, const ConnectionTable& connections) {
  std::string whom = WaitingFor(op, keys, connections);
  if (whom == kEarlierOperations) whom = EarlierWaitingFor(op, keys, connections);
  return Fail(ErrorCode::kDeadlineExceeded, Describe(op, keys), HasRound(op) ? "," : "",
              " was not done by its deadline: waiting for ", whom,
              membership::LimitText(op.opened, op.deadline));
}

}  // namespace sluice::worker
