// DistStore: Set, which sets weights outside a round.
#include "tensor/access.h"
#include "worker/dist_store.h"

namespace sluice::worker {

// The value is read in place, as that of a push, until the servers have it. Only worker 0 sends one.
void DistStore::Set(const std::vector<Key>& keys, const std::vector<NDArray>& values) {
  outstanding_.Check();
  const std::lock_guard lock(mutex_);
  const std::vector<Values> lists = kvstore::OneArrayPerKey("Set", keys, values);
  const auto entries = kvstore::GroupByKey("Set", keys, lists);
  const Found states = FindAll("Set", entries);
  CallBatch calls = NewCallBatch(entries.size());
  for (size_t i = 0; i < entries.size(); ++i) {
    KeyState& state = *states[i];
    const auto call_with = [&](Frame source) {
      return [args = SetArgs{state.id, std::move(source)}, timeout = Timeout()](
                 Client& client, Time now, transport::Network& network, const EventCompleter& end) {
        client.Set(now, args, DeadlineOf(now, timeout), end, network);
      };
    };
    if (rank_ != 0) {
      Issue(state.set, state, {}, call_with({}), calls);
      continue;
    }
    const NDArray& value = entries[i].arrays.front();
    const NDArray sent = value.context().kind == DeviceKind::kGpu ? value.AsInContext(cpu_pinned(0)) : value;
    SubmitIfAdopting({sent}, calls);
    const Event read = Event::Make(state.set, nullptr, records_);
    Issue(state.set, state, {ReadyToRead(sent)}, call_with(HostFrame(sent, read, records_)), calls);
    AddReader(sent, read);
  }
}

}  // namespace sluice::worker
