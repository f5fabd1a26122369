// Invariants. A failed check is a bug of ours: the process prints the message and a stack, and aborts.
// What a user, a file or the network can cause is never a check: return a Result or throw sluice::Error.
#pragma once

#include <glog/logging.h>

#define SLUICE_CHECK(condition) CHECK(condition)
#define SLUICE_DCHECK(condition) DCHECK(condition)
