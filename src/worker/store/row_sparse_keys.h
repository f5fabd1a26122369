// RowSparseKeys carries out the calls on row-sparse keys.
#pragma once

#include <vector>

#include "worker/store/issuer.h"
#include "worker/store/store_context.h"
#include "worker/store/store_key_table.h"

namespace sluice::worker {

// The methods are those of KVStore. Push and Pull issue operations and return; Ids and Set wait for the
// servers.
//
// Thread safety: one thread at a time.
class RowSparseKeys {
 public:
  RowSparseKeys(StoreContext& context, StoreKeyTable& keys, Issuer& issuer)
      : context_(context), keys_(keys), issuer_(issuer) {}

  void Push(const Key& key, const std::vector<RowSparse>& gradients, const PushOptions& options);
  void Pull(const Key& key, const std::vector<RowSparse>& outs, int priority);
  NDArray Ids(const Key& key);
  void Set(const Key& key, const RowSparse& rows);

 private:
  StoreContext& context_;
  StoreKeyTable& keys_;
  Issuer& issuer_;
};

}  // namespace sluice::worker
