// Functions that start and end a Sluice program.
//
//   int main(int argc, char** argv) {
//     sluice::Init(argc, argv);         // a scheduler or server plays its role here and exits
//     auto kv = sluice::KVStore::Create("dist_sync");
//     ...
//     return sluice::Finish();          // leaves the job; returns 0
//   }
//
// A worker that ends without Finish counts as failed: the whole job stops, with a message that names the
// worker. A child process that a worker forks must call exec, because arrays may lie in memory that parent
// and child would share (SLUICE_TRANSPORT). docs/environment.md lists the environment variables.
//
// Signals: Init installs handlers for SIGINT (Ctrl-C) and SIGTERM, which end the process and report it to the
// job, and for SIGUSR1, which logs the state of the process. It installs each of them only if the program has
// no handler of its own and does not ignore the signal. A handler that the program installs later replaces
// Init's. No signal is blocked, and processes that the program starts (posix_spawn, fork and exec) inherit
// the signals and the environment that the program would have without Sluice. In a job with many connections
// the soft limit of descriptors (RLIMIT_NOFILE) is raised; a child of fork gets the old limit back, a child
// of posix_spawn, system or popen does not.
#pragma once

#include <functional>
#include <string>

#include "sluice/error.h"

namespace sluice {

// Reads the environment once, and sets up logging and signals. With DMLC_ROLE=scheduler or server, Init runs
// that role and then exits the process with the role's exit code, as users of MXNet expect. It throws Error
// for an invalid environment. The arguments give the program's name in its log; they may be (0, nullptr).
void Init(int argc, char** argv);

// Leaves the job in good order: waits until the servers have received all that this worker pushed, at most
// for SLUICE_OPERATION_TIMEOUT, and sends the leave message. Pulls that are still open end with kCancelled.
// Finish returns 0. It throws the first failure that no store has thrown yet, for example a refused push, and
// throws Error when the job has failed meanwhile.
int Finish();

// Leaves the job as a process that has failed, which ends the whole job with the message `why` about this
// worker. It is for programs that neither throw out of RunProgram nor call Finish, such as hosts of other
// languages. It throws nothing, and does nothing outside of a job.
void Fail(const std::string& why) noexcept;

// A whole main(): calls Init, `body` and Finish, and returns the exit code. If one of them throws, the error
// is printed as one line and reported to the job. The exit code is then 1, or 2 for bad flags and a bad
// environment (Error(kInvalidArgument) before the job was joined), or 130 and 143 after Ctrl-C and SIGTERM.
int RunProgram(int argc, char** argv, const std::function<void()>& body);

// Lets the program itself decide when to end after a signal, for example after it has saved a checkpoint.
// After Init, the first SIGTERM or SIGINT makes a thread of the library call `call(number)`, and the process
// goes on. A second signal ends the process at once; a signal of the same kind does so only after 2 s,
// because a batch system may send one to all processes, which launch.py then passes on once more. In a job
// all workers are notified of the signal of one worker: `call(0)` runs in the workers that received no signal
// themselves, so that worker 0 can save the state of the job. `call` runs once.
//
// `call` may call std::exit, which then ends the process without running the destructors of static objects,
// since other threads may use these. If `call` throws, the error is printed and the process ends as the
// signal would have ended it, or with exit code 1 after call(0). If the end was requested before
// OnTermination is called, `call` runs at once, on the caller's thread, and OnTermination throws what it
// throws. A later OnTermination replaces `call`; with null, the first signal ends the process again.
// Thread-safe.
//
// Workers of a sync store wait for each other. So either all of them stop after the same step, or worker 0
// throws and the others end with the job; SaveOptions::end_asked (sluice/callback.h) does the latter in Fit.
void OnTermination(std::function<void(int number)> call);

// Calls OnTermination with a function that sets a flag. The function that is returned says whether the end
// has been requested; it may be called from any thread, also after the program's other objects are destroyed.
std::function<bool()> TerminationFlag();

// Restarts the program with GOMP_SPINCOUNT=3000 in its environment. The threads of OpenMP then spin for ten
// microseconds instead of a millisecond before they sleep, which is many times as fast where other processes
// use the same cores (docs/design/tensors.md). The restart is needed because the OpenMP library reads the
// variable before main() begins. Call it in the first line of main(), before anything reads the arguments or
// starts a thread; no other function of Sluice restarts a program. It does nothing where GOMP_SPINCOUNT or
// OMP_WAIT_POLICY is set, as under tools/launch.py, or where the program was started through the dynamic
// loader (ld.so PROGRAM). When it returns, the environment is as it was.
void RestartWithBriefSpins(int argc, char** argv);

}  // namespace sluice
