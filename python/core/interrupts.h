// Waits that Ctrl-C ends. All functions are called with the GIL and release it while they wait.
#pragma once

#include <functional>

#include "tensor/stream.h"

namespace sluice::python {

// Waits until `event` is done, and throws its error. On the main thread the signal handlers of Python run
// every 100 ms; what they raise, such as KeyboardInterrupt, is thrown, and the event goes on without a
// waiter.
void Wait(const Event& event);

// Runs `call`, which may block and must not use Python, and throws what it throws. On the main thread it runs
// beside this thread, so that what a signal handler raises can be thrown before `call` returns; `call` then
// goes on by itself, so that it has to own what it uses.
void RunBlocking(std::function<void()> call);

}  // namespace sluice::python
