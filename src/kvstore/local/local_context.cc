#include "kvstore/local/local_context.h"

#include <memory>
#include <span>

#include "base/strings.h"
#include "kvstore/update_array.h"
#include "sluice/error.h"

namespace sluice::kvstore {
namespace {

// Enqueues gradient * factor, computed as a server's update computes it, and returns it.
NDArray Scaled(const Key& key, const NDArray& gradient, double factor) {
  NDArray scaled = NDArray::Empty(gradient.shape(), gradient.context(), gradient.dtype());
  PendingUpdate assign = {
      "gradient of key " + ToString(key),
      std::make_shared<const ArrayRule>(ArrayRule{{}, {key, gradient.dtype(), gradient.shape()}, {}, {}}),
      {.length = static_cast<size_t>(gradient.size()), .scale = factor},
      {gradient},
      scaled,
      {}};
  EnqueueUpdates(std::span(&assign, 1));
  return scaled;
}

}  // namespace

void UpdaterRunner::Run(const KVStore::Updater& updater, const Key& key, const NDArray& gradient,
                        double factor, NDArray& weight) {
  const auto failed = [&](ErrorCode code, const std::string& why) {
    throw Error(code, StrCat("push of key ", ToString(key), ": the updater failed: ", why));
  };
  const NDArray given = factor == 1 ? gradient : Scaled(key, gradient, factor);
  thread_ = std::this_thread::get_id();
  const struct Reset {
    std::atomic<std::thread::id>& id;
    ~Reset() { id = std::thread::id(); }
  } reset{thread_};
  try {
    updater(key, given, weight);
  } catch (const Error& error) {
    failed(error.code(), error.what());
  } catch (const std::exception& error) {
    failed(ErrorCode::kFailedPrecondition, error.what());
  } catch (...) {
    failed(ErrorCode::kFailedPrecondition, "it threw something that is no std::exception");
  }
}

}  // namespace sluice::kvstore
