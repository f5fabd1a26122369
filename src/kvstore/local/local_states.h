// The functions of this file save and load the optimiser states of a LocalStore's keys. They expect that no
// operation on a key is in progress. Throw Error(kFailedPrecondition) when no optimiser was set.
#pragma once

#include <string>

#include "kvstore/local/local_key_table.h"

namespace sluice::kvstore {

void SaveLocalStates(const std::string& path, const UpdateRule& rule, LocalKeyTable& keys);
void LoadLocalStates(const std::string& path, const UpdateRule& rule, LocalKeyTable& keys);

}  // namespace sluice::kvstore
