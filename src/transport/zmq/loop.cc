#include "transport/zmq/loop.h"

#include "transport/zmq/driver.h"

namespace sluice::transport {

ZmqLoop::ZmqLoop(std::shared_ptr<ZmqContext> context, std::shared_ptr<StateMachine> machine,
                 LoopOptions options)
    : driver_(std::make_unique<ZmqDriver>(std::move(context), std::move(machine), std::move(options))) {}
ZmqLoop::~ZmqLoop() = default;

bool ZmqLoop::Post(Task task) {
  return driver_->Post(std::move(task));
}
bool ZmqLoop::PostOrRun(Task task) {
  return driver_->PostOrRun(std::move(task));
}
void ZmqLoop::DriveUntil(const std::function<bool()>& done, Time deadline) {
  driver_->DriveUntil(done, deadline);
}
void ZmqLoop::Stop() {
  driver_->Stop();
}
const std::vector<std::string>& ZmqLoop::addresses() const {
  return driver_->addresses();
}
bool ZmqLoop::Join(Duration timeout) {
  return driver_->Join(timeout);
}
std::string ZmqLoop::failure() const {
  return driver_->failure();
}
ZmqCounters ZmqLoop::counters() const {
  return driver_->counters();
}

}  // namespace sluice::transport
