// Updates single rows of a parameter's arrays: a Trainer with update_on_kvstore = false does this where the
// gradient is row-sparse.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kvstore/rows/row_table.h"
#include "kvstore/states_file.h"
#include "kvstore/update/update.h"
#include "sluice/row_sparse.h"

namespace sluice::internal {

// Returns what a table of float32 is to the rule that updates it.
wire::KeySpec TableSpec(const std::string& key, const Shape& shape);

// The states of one table's rows. All methods run on the training thread.
class RowUpdate {
 public:
  RowUpdate(std::string key, const Shape& shape);

  // Updates the rows of `gradients` times `scale`, and no others, as a row-sparse key does. The arrays are
  // equal, one for each context, and stay equal. Waits for the gradients and the weights.
  void Update(const kvstore::UpdateRule& rule, const std::vector<RowSparse>& gradients, double scale,
              std::vector<NDArray>* weights);

  int64_t num_updates() const { return num_updates_; }
  kvstore::StateLayout Layout() const { return {key_, spec_.shape, spec_.dtype, true}; }
  kvstore::KeyStates States(const Optimizer& optimizer);
  void SetStates(const Optimizer& optimizer, const kvstore::KeyStates& states);
  // Spread changes the states of some rows into those of every row of the table, with zeros for the others,
  // and empties `rows`. Gather does the opposite.
  void Spread(kvstore::KeyStates* states) const;
  void Gather(kvstore::KeyStates* states) const;

 private:
  std::string key_;
  wire::KeySpec spec_;
  // Its weights are out of date: each update copies those of its rows from the parameter's arrays.
  std::unique_ptr<kvstore::RowTable> table_;
  int64_t num_updates_ = 0;
};

}  // namespace sluice::internal
