// Checks of invariants. A failed check is a bug in Sluice: the process prints the message and a
// stack, and aborts. An error that a user, a file or the network can cause is never a check:
// return a Result or throw sluice::Error.
#pragma once

#include <glog/logging.h>

#define SLUICE_CHECK(condition) CHECK(condition)
