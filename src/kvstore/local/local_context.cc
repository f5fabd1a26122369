#include "kvstore/local/local_context.h"

#include "base/strings.h"
#include "sluice/error.h"

namespace sluice::kvstore {

void UpdaterRunner::Run(const KVStore::Updater& updater, const Key& key, const NDArray& gradient,
                        NDArray& weight) {
  const auto failed = [&](ErrorCode code, const std::string& why) {
    throw Error(code, StrCat("push of key ", ToString(key), ": the updater failed: ", why));
  };
  thread_ = std::this_thread::get_id();
  const struct Reset {
    std::atomic<std::thread::id>& id;
    ~Reset() { id = std::thread::id(); }
  } reset{thread_};
  try {
    updater(key, gradient, weight);
  } catch (const Error& error) {
    failed(error.code(), error.what());
  } catch (const std::exception& error) {
    failed(ErrorCode::kFailedPrecondition, error.what());
  } catch (...) {
    failed(ErrorCode::kFailedPrecondition, "it threw something that is no std::exception");
  }
}

}  // namespace sluice::kvstore
