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
//
// Signals: Init installs handlers for SIGINT (Ctrl-C) and SIGTERM, which end the process and tell its job,
// and for SIGUSR1, which logs its state; each only where the program has none of its own and does not ignore
// the signal. A handler that the program installs later takes the place of Init's. No signal is blocked, and
// what the program starts (posix_spawn, fork and exec) gets the signals and the environment that the program
// has without Sluice. A job with many connections raises the soft limit of descriptors (RLIMIT_NOFILE); a
// child that is forked gets back the one before, one of posix_spawn, system or popen does not.
#pragma once

#include <functional>

#include "sluice/error.h"

namespace sluice {

// Reads the environment once, sets up logging and signals. With DMLC_ROLE=scheduler or server, runs that role
// and exits the process with its exit code, as users of the earlier system expect. Throws Error for a bad
// environment. The arguments name the program in its log, and may be none (0, nullptr).
void Init(int argc, char** argv);

// Leaves the job in good order: waits until the servers have all that this worker pushed (as long as
// SLUICE_OPERATION_TIMEOUT says) and says goodbye. Pulls that nobody waited for end with kCancelled. Returns
// 0; throws the first failure that no store has thrown yet, for example a refused push, and Error when the
// job has failed meanwhile.
int Finish();

// A whole main(): Init, `body`, Finish. A thrown Error is printed as one line and told to the job; the exit
// code is 1, or 2 for bad flags and environment (Error(kInvalidArgument) before the job was joined), or
// 130/143 after Ctrl-C/SIGTERM.
int RunProgram(int argc, char** argv, const std::function<void()>& body);

// Lets the program end in its own time, for example after it has saved a checkpoint. After Init: the first
// SIGTERM or SIGINT runs `call(number)`, on a thread of the library, and the process goes on; a second one
// ends it at once (of the same kind only after 2 s: a batch system may send it to all processes, and
// launch.py passes it on). In a job the signal of one worker is told to all: `call(0)` runs in those that had
// none, so that worker 0 can save what the job has. `call` runs once. It may call std::exit, which ends the
// process without the destructors of static objects, since other threads may use them. Where it throws, that
// is said, and the process ends: by the signal, or with 1. Where the end is asked for already, `call` runs at
// once, on the caller's thread, and what it throws comes out of OnTermination. Null: the first signal ends
// the process again. Replaces the call before it. Thread-safe.
//
// Workers of a sync store wait for each other, so all of them stop after the same step, or worker 0 throws
// and the others end with the job; SaveOptions::end_asked (sluice/callback.h) does that within Fit.
void OnTermination(std::function<void(int number)> call);

// OnTermination with a flag: whether the end has been asked for. The function may be called from any thread,
// also after the program's other objects have gone.
std::function<bool()> TerminationFlag();

// Starts the program once more, with GOMP_SPINCOUNT=3000 in its environment: OpenMP's threads then look for
// more work for ten microseconds, not a millisecond, before they sleep, which is many times as fast where
// others use the same cores (docs/design/tensors.md). OpenMP's library reads the number before main() begins,
// hence the restart. The first line of main(), before anything reads the arguments or starts a thread; no
// other function of Sluice restarts a program. Does nothing where GOMP_SPINCOUNT or OMP_WAIT_POLICY is set,
// as under tools/launch.py, or where the program was started through the loader (ld.so PROGRAM). When it
// returns, the environment is as it was.
void RestartWithBriefSpins(int argc, char** argv);

}  // namespace sluice
