// Init, Finish and Fail of sluice/runtime.h, and what the environment says about the job.
#include "sluice/runtime.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <string>
#include <vector>

#include "core.h"
#include "foreign.h"
#include "interrupts.h"
#include "sluice/job.h"
#include "sluice/version.h"

namespace sluice::python {

void BindRuntime(nb::module_& module) {
  using namespace nb::literals;
  module.attr("version") = kVersion;
  nb::module_::import_("atexit").attr("register")(
      nb::cpp_function(&LeaveHeld));  // runs after those of programs
  module.def(
      "init",
      [](std::string program) {
        char* arguments[] = {program.data(), nullptr};
        const nb::gil_scoped_release release;  // a scheduler or server stays in it for good
        Init(1, arguments);
      },
      "program"_a);
  module.def("finish", [] {
    RunBlocking([] { Finish(); });
    ReleaseHeld();
  });
  module.def(
      "fail",
      [](const std::string& why) {
        const nb::gil_scoped_release release;
        Fail(why);
      },
      "why"_a);
  module.def("rank", [] {
    const auto rank = std::make_shared<int>(0);
    RunBlocking([rank] { *rank = Rank(); });
    return *rank;
  });
  module.def(
      "job",
      [] {
        const JobInfo job = Job();
        nb::dict facts;
        facts["in_job"] = job.in_job;
        facts["num_workers"] = job.num_workers;
        facts["num_servers"] = job.num_servers;
        facts["cpu_threads"] = job.cpu_threads;
        return facts;
      },
      nb::sig("def job() -> dict[str, int]"));
}

}  // namespace sluice::python
