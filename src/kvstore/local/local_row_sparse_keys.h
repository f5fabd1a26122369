// LocalRowSparseKeys carries out the calls on the row-sparse keys of a LocalStore.
#pragma once

#include <span>
#include <vector>

#include "kvstore/local/local_context.h"
#include "kvstore/local/local_key_table.h"
#include "kvstore/states_file.h"

namespace sluice::kvstore {

// The methods are those of KVStore. Thread safety: one thread at a time.
class LocalRowSparseKeys {
 public:
  LocalRowSparseKeys(LocalContext& context, const LocalSettings& settings, LocalKeyTable& keys)
      : context_(context), settings_(settings), keys_(keys) {}

  void Init(const Key& key, const Shape& shape, DType dtype, const RowInit& init);
  void Push(const Key& key, const std::vector<RowSparse>& gradients, const PushOptions& options);
  void Pull(const Key& key, const std::vector<RowSparse>& outs);
  NDArray Ids(const Key& key);
  void Set(const Key& key, const RowSparse& rows);

 private:
  void UpdateByFunction(const Key& key, LocalKey& found, std::span<const int64_t> ids,
                        const std::vector<RowSparse>& gradients, double divisor);

  LocalContext& context_;
  const LocalSettings& settings_;
  LocalKeyTable& keys_;
};

}  // namespace sluice::kvstore
