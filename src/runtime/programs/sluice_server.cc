// The stock server. tools/launch.py starts those of a job; everything it needs is in the environment:
// docs/environment.md.
#include "base/strings.h"
#include "base/tool_names.h"
#include "runtime/nodes.h"
#include "runtime/process.h"
#include "runtime/program_flags.h"

int main(int argc, char** argv) {
  return sluice::runtime::RunProcess("sluice_server", [&](const sluice::runtime::JobConfig& config) {
    sluice::runtime::ParseProgramFlags(argc, argv,
                                       sluice::StrCat("A server of a Sluice job. It takes no flags: ",
                                                      sluice::LaunchTool(), " tells it all by environment."),
                                       sluice::runtime::RowsOfMachine);
    return sluice::runtime::RunStockNode(config, sluice::wire::Role::kServer);
  });
}
