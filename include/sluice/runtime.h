// Starting and ending a Sluice program.
//
//   int main(int argc, char** argv) {
//     sluice::Init(argc, argv);         // a scheduler or server plays its role here and exits
//     auto kv = sluice::KVStore::Create("dist_sync");
//     ...
//     return sluice::Finish();          // says goodbye to the job; 0
//   }
//
// A worker that ends without Finish counts as failed: the whole job stops, with a message that names it.
// A child that it forks calls exec: arrays may lie in memory that both share (SLUICE_TRANSPORT).
// Environment variables: docs/environment.md.
#pragma once

#include <functional>

namespace sluice {

// Reads the environment once, sets up logging and signals. With DMLC_ROLE=scheduler or server, runs that role
// and exits the process with its exit code, as users of the earlier system expect. Throws Error for a bad
// environment.
void Init(int argc, char** argv);

// Leaves the job in good order: waits until the servers have all that this worker pushed (10 minutes at most)
// and says goodbye. Pulls that nobody waited for end with kCancelled. Returns 0; throws the first failure
// that no store has thrown yet, for example a refused push, and Error when the job has failed meanwhile.
int Finish();

// A whole main(): Init, `body`, Finish. Nothing comes before it: the program may start once more, with what
// OpenMP has to be told before it is loaded (GOMP_SPINCOUNT in docs/environment.md). A thrown Error is
// printed as one line and told to the job; the exit code is 1, or 2 for bad flags and environment
// (Error(kInvalidArgument) before the job was joined), or 130/143 after Ctrl-C/SIGTERM.
int RunProgram(int argc, char** argv, const std::function<void()>& body);

}  // namespace sluice
