// A worker program and a server program that print what they see of their job:
//
//   membership_probe STEPS
//
// The workers train STEPS steps (0: until something ends them) between two barriers of all nodes.
#include <cstdlib>
#include <iostream>

#include "base/strings.h"
#include "runtime/process.h"
#include "sluice/error.h"
#include "sluice/kvstore.h"
#include "sluice/runtime.h"
#include "sluice/server.h"

namespace {

using namespace sluice;

void Say(const std::string& line) {
  std::cout << line + "\n" << std::flush;
}

// Runs `body`. If an error ends it, prints the error and the number of dead nodes at that moment.
template <typename Node, typename Body>
void TellTheDead(Node& node, const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    Say(StrCat("NumDeadNodes() == ", node.NumDeadNodes(), ": ", error.what()));
    throw;
  }
}

void Serve(ServerNode& node) {
  TellTheDead(node, [&] {
    node.Barrier();
    Say(StrCat("server ", node.rank(), " of ", node.num_servers(), " is past the barrier of the servers"));
    node.Barrier(BarrierGroup::kAll);
    node.Barrier(BarrierGroup::kAll);
    Say(StrCat("server ", node.rank(), " is past the barriers of all, ", node.NumDeadNodes(), " dead"));
  });
}

void Work(int steps) {
  const auto kv = KVStore::Create("dist_sync");
  Say(StrCat("worker ", kv->rank(), " has joined"));
  TellTheDead(*kv, [&] {
    NDArray weight({1000});
    weight.Fill(1);
    kv->Init("w", weight);
    kv->Barrier(BarrierGroup::kAll);
    for (int step = 1; step <= steps || steps == 0; ++step) {
      kv->PushPull("w", weight);
      kv->WaitAll();
      if (step == 1) Say("the first round has closed");
    }
    kv->Barrier(BarrierGroup::kAll);
    Say(StrCat("worker ", kv->rank(), " is past the barriers of all, ", kv->NumDeadNodes(), " dead"));
  });
}

}  // namespace

int main(int argc, char** argv) {
  const char* role = std::getenv("DMLC_ROLE");
  if (role != nullptr && role == std::string_view("server")) return RunServer({.program = Serve});
  return RunProgram(argc, argv, [&] { Work(argc > 1 ? std::atoi(argv[1]) : 1); });
}
