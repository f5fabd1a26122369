// KeyInitializer: from the names of keys to their entries, and from their entries to their first values
// and rounds.
//
// The client's loop calls everything here. Keys that do not fit one message go in several. Init of a key
// ends when the key's version is known on every shard; a restarted worker takes its round from it.
#include "worker/session/key_initializer.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"

namespace sluice::worker {
namespace {

// Divides the keys of a call among messages: returns for each message the index after its last key.
// A message and its answer, which has the slices, stay far below what a peer accepts. There is at
// least one message, even without keys.
std::vector<size_t> EndsOfDeclarations(const std::vector<InitArgs>& keys, size_t shards) {
  constexpr size_t kMostKeys = 16384, kMostBytes = size_t{4} << 20;
  constexpr size_t kBytesOfEntry = 48, kBytesOfSlice = 16, kLeastSlice = 1024;  // elements
  std::vector<size_t> ends;
  size_t first = 0, bytes = 0;
  for (size_t i = 0; i < keys.size(); ++i) {
    const wire::KeySpec& spec = keys[i].spec;
    const auto* name = std::get_if<std::string>(&spec.name);
    const size_t slices =
        spec.rows ? shards : std::min(shards, 1 + static_cast<size_t>(spec.shape.size()) / kLeastSlice);
    const size_t more = kBytesOfEntry + (name == nullptr ? 0 : name->size()) + 10 * spec.shape.ndim() +
                        kBytesOfSlice * slices;
    if (i > first && (i - first == kMostKeys || bytes + more > kMostBytes)) {
      ends.push_back(i);
      first = i;
      bytes = 0;
    }
    bytes += more;
  }
  ends.push_back(keys.size());
  return ends;
}

}  // namespace

// A call of Init whose keys are being declared. Keys that do not fit one message are sent to the scheduler
// in several first, and it takes all of them or none; then their entries are requested, as many at a time.
struct KeyInitializer::Declaration {
  wire::SyncMode mode;
  std::vector<InitArgs> keys;
  Time deadline;
  InitDone done;
  std::vector<size_t> ends;  // by message: the index after its last key
  uint64_t call = 0;         // the same for all messages of the call (wire::DeclareKeys::part)
  size_t message = 0;        // number of the next message
  std::vector<wire::KeyEntry> entries;

  size_t first() const { return message == 0 ? 0 : ends[message - 1]; }
  wire::DeclareKeys Next() const {
    wire::DeclareKeys declare{mode, {}};
    for (size_t i = first(); i < ends[message]; ++i) declare.keys.push_back(keys[i].spec);
    return declare;
  }
};

void KeyInitializer::Init(Time now, wire::SyncMode mode, std::vector<InitArgs> keys, Time deadline,
                          InitDone done, transport::Network& network) {
  std::vector<size_t> ends = EndsOfDeclarations(keys, connections_.size());
  auto declaration = std::make_shared<Declaration>(Declaration{
      mode, std::move(keys), deadline, std::move(done), std::move(ends), messages_.next_id(), 0, {}});
  if (declaration->ends.size() > 1) return DeclareNextPart(now, std::move(declaration), network);
  Declare(now, std::move(declaration), network);
}

void KeyInitializer::DeclareNextPart(Time now, std::shared_ptr<Declaration> declaration,
                                     transport::Network& network) {
  wire::DeclareKeys part = declaration->Next();
  part.part = {declaration->call, declaration->first(), declaration->keys.size()};
  requests_.Ask(
      now, std::move(part), "declaring keys", declaration->deadline,
      [this, declaration](Time at, transport::Network& net, const Result<wire::Body>& answer) {
        if (!answer) return declaration->done(answer.failure());
        if (++declaration->message < declaration->ends.size()) return DeclareNextPart(at, declaration, net);
        declaration->message = 0;
        Declare(at, declaration, net);
      },
      network);
}

void KeyInitializer::Declare(Time now, std::shared_ptr<Declaration> declaration,
                             transport::Network& network) {
  requests_.Ask(
      now, declaration->Next(), "declaring keys", declaration->deadline,
      [this, declaration](Time at, transport::Network& net, const Result<wire::Body>& answer) {
        if (!answer) return declaration->done(answer.failure());
        Declaration& d = *declaration;
        const size_t asked = d.ends[d.message] - d.first();
        const auto* table = std::get_if<wire::KeyTable>(&answer.value());
        if (table == nullptr || table->entries.size() != asked) {
          return d.done(Fail(ErrorCode::kDataLoss, "the scheduler answered a declaration of ", asked,
                             " keys with ", wire::BodyName(answer.value())));
        }
        d.entries.insert(d.entries.end(), table->entries.begin(), table->entries.end());
        if (++d.message < d.ends.size()) return Declare(at, declaration, net);
        OnDeclared(at, d, net);
      },
      network);
}

void KeyInitializer::OnDeclared(Time now, Declaration& declaration, transport::Network& network) {
  const std::vector<wire::KeyEntry>& entries = declaration.entries;
  struct Pending {
    size_t left;
    Status status;
    std::vector<uint32_t> ids;
    InitDone done;
  };
  auto pending =
      std::make_shared<Pending>(Pending{entries.size(), Status::Ok(), {}, std::move(declaration.done)});
  for (const wire::KeyEntry& entry : entries) {
    pending->ids.push_back(entry.id);
    const std::string why = plan::InvalidReason(entry, static_cast<uint32_t>(connections_.size()));
    if (!why.empty())
      return pending->done(Fail(ErrorCode::kDataLoss, "the scheduler sent an invalid key table: ", why));
  }
  if (entries.empty()) return pending->done(pending->ids);
  for (size_t i = 0; i < entries.size(); ++i) {
    const wire::KeyEntry& entry = entries[i];
    keys_.Add(entry);
    auto version = open_.New(OpKind::kVersion, entry.id);
    version->name = "Init";
    version->deadline = declaration.deadline;
    if (messages_.self().rank() != 0 && !entry.spec.rows)
      version->waiting_for = "worker 0 to initialise the key";
    version->done = [pending, &key = *keys_.Find(entry.id), op = version](const Status& status) {
      if (!status.ok()) pending->status = status;
      // A restarted worker continues with the round that the servers expect.
      if (status.ok() && op->version != UINT64_MAX) key.pushed = std::max(key.pushed, op->version);
      if (--pending->left > 0) return;
      pending->done(pending->status.ok() ? Result<std::vector<uint32_t>>(pending->ids)
                                         : Result<std::vector<uint32_t>>(pending->status.failure()));
    };
    if (messages_.self().rank() == 0 && !entry.spec.rows) {
      auto init = open_.New(OpKind::kInit, entry.id);
      init->source = std::move(declaration.keys[i].value);
      init->done = [version_done = version](const Status& status) {
        if (!status.ok() && version_done->done) std::exchange(version_done->done, nullptr)(status);
      };
      operations_.Start(now, std::move(init), network);
    }
    operations_.Start(now, std::move(version), network);
  }
}

}  // namespace sluice::worker
