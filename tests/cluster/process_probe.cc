// A program as a user of the library might write it, which shows what sluice::Init does to its process:
// arguments, signal handlers, environment and limits of children, ways to end. It parses its flags with
// gflags, which removes them from argv, before it calls Init. It prints a line for each observation;
// process_test.py and limits_test.py read them.
//
//   process_probe --what=WHAT [--show=FLAG] [--init=arguments|none]
#include <fcntl.h>
#include <gflags/gflags.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/sluice.h"

DEFINE_string(
    what, "flags",
    "What to do after Init: flags, look (without Init), spawn, long_child, sleep, stubborn, let_go, "
    "sigwait, long_end, exit_at_end, busy_exit_at_end, throw_at_end, throw_when_told, early, afterwards.");
DEFINE_string(show, "default", "A flag whose value is printed.");
DEFINE_string(init, "arguments", "What Init gets: arguments, or none.");
DEFINE_string(handler, "", "Before or after Init the program installs a handler of its own for SIGTERM.");
DEFINE_string(block, "", "Before Init the program blocks SIGTERM, to take it by sigwait.");
DEFINE_string(spawn, "posix_spawn", "How a child is started: posix_spawn, fork, system.");
DEFINE_string(states, "", "With --what=afterwards: a file for the states of optimisers.");
DEFINE_bool(restart, false,
            "Whether the program starts itself again with OpenMP's threads spinning briefly.");
DEFINE_bool(termination, false, "Whether the program takes its end into its own hands.");

extern char** environ;

namespace sluice {
namespace {

volatile sig_atomic_t heard = 0;

void Say(const std::string& line) {
  std::cout << line << std::endl;
}

void InstallHandler() {
  struct sigaction action {};
  action.sa_handler = [](int number) { heard = number; };
  sigaction(SIGTERM, &action, nullptr);
}

// Starts a program by the means of --spawn, fork or posix_spawn, and waits for its end.
void RunChild(const char* program, const std::vector<const char*>& arguments) {
  auto* const argv = const_cast<char* const*>(arguments.data());
  pid_t child = 0;
  if (FLAGS_spawn == "fork") {
    child = fork();
    if (child == 0) {
      execv(program, argv);
      _exit(127);
    }
  } else if (posix_spawn(&child, program, nullptr, nullptr, argv, environ) != 0) {
    Say("no child");
    return;
  }
  int status = 0;
  waitpid(child, &status, 0);
  Say("the child ended with " +
      std::to_string(WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status)));
}

void RunShell(const std::string& script) {
  if (FLAGS_spawn != "system") return RunChild("/bin/sh", {"sh", "-c", script.c_str(), nullptr});
  if (std::system(script.c_str()) != 0) Say("the child failed");
}

// Prints what a child inherits: signal masks, umask, folder, limits, descriptors, and the environment without
// the variables that a shell adds. A shell unblocks signals in what it starts, so a child that no shell has
// started reads the masks.
void Look() {
  constexpr const char* kSignals = "^(SigBlk|SigIgn):";
  if (FLAGS_spawn != "system")
    RunChild("/bin/grep", {"grep", "-E", kSignals, "/proc/self/status", nullptr});
  else
    RunShell(std::string("grep -E '") + kSignals + "' /proc/self/status");
  RunShell(
      "umask; pwd; ulimit -a; ls /proc/self/fd | sort -n | tr '\\n' ' ';"
      "echo; env | grep -vE '^(_|SHLVL|PWD|OLDPWD)=' | sort; echo end of child");
}

void Use() {
  const auto store = KVStore::Create(std::getenv("DMLC_ROLE") != nullptr ? "dist_sync" : "local");
  NDArray value({4});
  value.Fill(1);
  store->Init(1, value);
  store->WaitAll();
}

// Waits until the program's own signal handler has run or `asked` returns true, and prints which
// of them it was.
int AwaitEnd(const std::function<bool()>& asked) {
  Say("ready");
  while (heard == 0 && !asked()) poll(nullptr, 0, 20);
  Say(heard != 0 ? "the program's own handler ran" : "the program was asked to end");
  return 0;
}

// Takes its end into its own hands, and gives it back.
[[noreturn]] void LetGo() {
  OnTermination([](int) { Say("it goes on"); });
  OnTermination(nullptr);
  Say("ready");
  while (true) poll(nullptr, 0, 1000);
}

// Asks for the termination flag, but ignores it and goes on.
[[noreturn]] void BeStubborn() {
  const auto asked = TerminationFlag();
  Say("ready");
  while (true) poll(nullptr, 0, 1000);
}

// Installs an OnTermination function that never returns.
[[noreturn]] void EndSlowly() {
  OnTermination([](int) {
    Say("it ends");
    while (true) poll(nullptr, 0, 1000);
  });
  Say("ready");
  while (true) poll(nullptr, 0, 1000);
}

// Installs an OnTermination function that throws, or calls std::exit(3).
int FailAtEnd(bool throws) {
  OnTermination([throws](int) {
    if (throws) throw Error(ErrorCode::kUnavailable, "the disk is full");
    std::exit(3);
  });
  return AwaitEnd([] { return false; });
}

// Installs an OnTermination function that calls std::exit(3) while this thread computes.
[[noreturn]] void ExitWhileBusy() {
  OnTermination([](int) { std::exit(3); });
  nn::Sequential net;
  net.Add(nn::Conv2D(8, 3)).Add(nn::Conv2D(8, 3));
  net.CollectParams().Initialize();
  const NDArray x({4, 3, 24, 24});
  for (bool first = true;; first = false) {
    autograd::RecordScope record;
    const NDArray y = net(x);
    autograd::Backward({y});
    if (first) y.WaitToRead(), Say("ready");
  }
}

// Worker 1 of a job gets SIGTERM, and the OnTermination function that then runs on worker 0 throws.
int ThrowWhenTold() {
  const auto store = KVStore::Create("dist_sync");
  OnTermination([](int number) {
    if (number == 0) throw 5;
  });
  store->Barrier();
  if (store->rank() == 1) raise(SIGTERM);
  try {
    while (true) store->rank() == 1 ? store->Barrier() : static_cast<void>(poll(nullptr, 0, 1000));
  } catch (const Error& error) {
    Say(error.what());
    return 1;
  }
}

// Worker 1 of a job gets SIGTERM before it has joined.
int BeAskedEarly() {
  const auto asked = TerminationFlag();
  if (std::string(std::getenv("DMLC_RANK")) == "1") {
    raise(SIGTERM);
    while (!asked()) poll(nullptr, 0, 5);
  }
  const auto store = KVStore::Create("dist_sync");
  AwaitEnd(asked);
  store->Barrier();
  return Finish();
}

// Prints "CALL: " and the error of a call, or "none".
void Try(const std::string& call, const std::function<void()>& run) {
  std::string error = "none";
  try {
    run();
  } catch (const Error& caught) {
    error = caught.what();
  }
  Say(call + ": " + error);
}

// These calls on keys return at once, so that WaitAll has their errors.
void TryKeys(KVStore& store) {
  NDArray value({4}), rows({1, 2});
  const NDArray ids = NDArray({1}, DType::kInt64);
  Try("Push", [&] { store.Push("w", value), store.WaitAll(); });
  Try("Pull", [&] { store.Pull("w", &value), store.WaitAll(); });
  Try("PullLatest", [&] { store.PullLatest("w", &value), store.WaitAll(); });
  Try("PushPull", [&] { store.PushPull("w", value), store.WaitAll(); });
  Try("Set", [&] { store.Set("w", value), store.WaitAll(); });
  Try("PushRowSparse", [&] { store.PushRowSparse("t", {ids, rows}), store.WaitAll(); });
  Try("RowSparsePull", [&] { store.RowSparsePull("t", ids, &rows), store.WaitAll(); });
}

// These calls wait for servers or the scheduler.
void TryCallsThatWait(KVStore& store) {
  const NDArray ids = NDArray({1}, DType::kInt64);
  NDArray value({4});
  Try("Init", [&] { store.Init("v", value); });
  Try("Broadcast", [&] { store.Broadcast("v", value, &value); });
  Try("InitRowSparse", [&] { store.InitRowSparse("u", {4, 2}); });
  Try("SetRowSparse", [&] { store.SetRowSparse("t", {ids, NDArray({1, 2})}); });
  Try("RowSparseIds", [&] { store.RowSparseIds("t"); });
  Try("SetOptimizer", [&] { store.SetOptimizer({}); });
  Try("NumUpdates", [&] { store.NumUpdates("w"); });
  Try("Barrier", [&] { store.Barrier(); });
  Try("Agree", [&] { store.Agree("word"); });
  Try("NumDeadNodes", [&] { store.NumDeadNodes(); });
  Try("SaveOptimizerStates", [&] { store.SaveOptimizerStates(FLAGS_states); });
  Try("LoadOptimizerStates", [&] { store.LoadOptimizerStates(FLAGS_states); });
}

// Computes a gradient and takes a step with it.
void StepOnce(nn::Sequential& net, Trainer& trainer) {
  NDArray loss;
  {
    const autograd::RecordScope record;
    loss = net(NDArray({1, 2}));
  }
  autograd::Backward({loss});
  trainer.Step(1);
}

// Calls what needs a job after Finish, in a job in which worker 1 is still running.
int AskAfterFinish() {
  const auto store = KVStore::Create("dist_sync");
  store->Init("w", NDArray({4}));
  store->InitRowSparse("t", {4, 2});
  const auto net = std::make_shared<nn::Sequential>();
  net->Add(nn::Dense(1, {.in_units = 2}));
  net->CollectParams().Initialize();
  const auto trainer = std::make_unique<Trainer>(net->CollectParams(), OptimizerConfig{}, store);
  const auto data = std::make_shared<ArrayDataset>(Shape{2}, std::vector<float>(4), std::vector<int32_t>(2));
  store->SaveOptimizerStates(FLAGS_states);
  store->Barrier();
  if (std::string(std::getenv("DMLC_RANK")) == "1") return AwaitEnd(TerminationFlag());
  Finish();
  Try("Create", [] { KVStore::Create("dist_sync"); });
  Try("JobCounters", [] { JobCounters(); });
  TryKeys(*store);
  TryCallsThatWait(*store);
  // What a store sets for itself needs no job.
  Try("SetGradientCompression", [&] { store->SetGradientCompression({.type = Compression::k2Bit}); });
  Try("Compressed push", [&] { store->Push("w", NDArray({4})), store->WaitAll(); });
  Try("SaveStates", [&] { trainer->SaveStates(FLAGS_states); });
  Try("LoadStates", [&] { trainer->LoadStates(FLAGS_states); });
  Try("Fit", [&] { Fit(*net, data, nullptr, {}, store, {.batch_size = 1}); });
  // The last one, since the failures of several keys are left for the calls that follow.
  Try("Step", [&] { StepOnce(*net, *trainer), store->WaitAll(); });
  return 0;
}

int Wait() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  Say("ready");
  int number = 0;
  sigwait(&set, &number);
  Say("the program's sigwait has " + std::to_string(number));
  return 0;
}

int Run() {
  if (FLAGS_what == "look") {
    Look();
    return 0;
  }
  if (FLAGS_what == "early") return BeAskedEarly();
  if (FLAGS_what == "afterwards") return AskAfterFinish();
  if (FLAGS_what == "throw_when_told") return ThrowWhenTold();
  Use();
  if (FLAGS_what == "busy_exit_at_end") ExitWhileBusy();
  if (FLAGS_what == "long_end") EndSlowly();
  if (FLAGS_what.ends_with("_at_end")) return FailAtEnd(FLAGS_what == "throw_at_end");
  if (FLAGS_what == "spawn") Look();
  if (FLAGS_what == "long_child") {
    Say("ready");
    RunShell("echo child $$; exec sleep 600");
  }
  if (FLAGS_what == "sleep")
    return AwaitEnd(FLAGS_termination ? TerminationFlag() : std::function<bool()>([] { return false; }));
  if (FLAGS_what == "stubborn") BeStubborn();
  if (FLAGS_what == "let_go") LetGo();
  if (FLAGS_what == "sigwait") return Wait();
  return Finish();
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  // Before gflags takes the flags out of argv.
  if (std::find(argv, argv + argc, std::string_view("--restart")) != argv + argc)
    sluice::RestartWithBriefSpins(argc, argv);
  sluice::Say("before Init");
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  if (FLAGS_handler == "before") sluice::InstallHandler();
  if (FLAGS_block == "SIGTERM") {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &set, nullptr);
  }
  if (FLAGS_what != "look") FLAGS_init == "none" ? sluice::Init(0, nullptr) : sluice::Init(argc, argv);
  if (FLAGS_handler == "after") sluice::InstallHandler();
  sluice::Say("show " + FLAGS_show);
  sluice::Say("arguments " + std::to_string(argc - 1));
  return sluice::Run();
}
