#include "worker/store/declare.h"

#include "base/strings.h"
#include "sluice/error.h"
#include "tensor/access.h"
#include "worker/store/device_arrays.h"

namespace sluice::worker {

std::vector<InitArgs> DenseInits(const StoreContext& context, const std::vector<Key>& keys,
                                 const std::vector<NDArray>& values) {
  kvstore::RequireValues(keys, values);
  std::vector<KVStore::Values> lists;
  for (const NDArray& value : values) lists.push_back({value});
  const auto entries = kvstore::GroupByKey("Init", keys, lists);
  std::vector<InitArgs> args;
  for (const auto& entry : entries) {
    kvstore::RequireName(entry.key);
    if (entry.arrays.size() > 1)
      throw Error(ErrorCode::kAlreadyExists, StrCat("Init: key ", ToString(entry.key), " is named twice"));
    const NDArray& value = entry.arrays.front();
    const NDArray on_host = HostArray(value);
    on_host.WaitToRead();
    // The array's next writer waits until the frame is released.
    const Event read = Event::Make("Init of key " + ToString(entry.key), nullptr, context.records());
    args.push_back({{entry.key, on_host.dtype(), on_host.shape(), context.options().number},
                    HostFrame(on_host, read, context.records())});
    AddReader(on_host, read);
  }
  return args;
}

std::vector<wire::KeyEntry> Declare(const StoreContext& context, const std::vector<InitArgs>& args) {
  const auto made = std::make_shared<std::vector<wire::KeyEntry>>();  // shared: the call may outlive the wait
  const Duration timeout = context.Timeout();
  context.Await("Init", timeout,
                [args, made, mode = context.options().mode, timeout](
                    Client& client, Time now, transport::Network& network, worker::Done done) {
                  client.Init(
                      now, mode, args, DeadlineOf(now, timeout),
                      [made, done, &client](const Result<std::vector<uint32_t>>& result) {
                        if (result)
                          for (const uint32_t id : result.value()) made->push_back(client.keys().entry(id));
                        done(result ? Status::Ok() : Status(result.failure()));
                      },
                      network);
                });
  return *made;
}

}  // namespace sluice::worker
