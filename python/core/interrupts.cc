#include "interrupts.h"

#include <nanobind/nanobind.h>

#include <system_error>
#include <thread>

#include "base/fork.h"

namespace sluice::python {
namespace {

namespace nb = nanobind;

constexpr Duration kSlice = std::chrono::milliseconds(100);

// Only the main thread runs signal handlers.
bool IsMainThread() {
  static const nb::handle threading = nb::module_::import_("threading").release();
  return threading.attr("get_ident")().equal(threading.attr("main_thread")().attr("ident"));
}

}  // namespace

void Wait(const Event& event) {
  while (!event.Done()) {
    {
      const nb::gil_scoped_release release;
      event.DoneWithin(kSlice);
    }
    if (!event.Done() && PyErr_CheckSignals() != 0) throw nb::python_error();
  }
  event.Wait();
}

void RunBlocking(std::function<void()> call) {
  if (!IsMainThread() || InForkedChild()) {
    const nb::gil_scoped_release release;
    return call();
  }
  const Event done = Event::Make("a call from Python");
  try {
    std::thread([call, done] {
      std::exception_ptr failure;
      try {
        call();
      } catch (...) {
        failure = std::current_exception();
      }
      done.Complete(failure);
    }).detach();
  } catch (const std::system_error&) {  // no thread can be started
    const nb::gil_scoped_release release;
    return call();
  }
  Wait(done);
}

}  // namespace sluice::python
