// What a loop says while nobody answers where it connects to.
#include <glog/logging.h>
#include <gtest/gtest.h>

#include "base/guarded.h"
#include "unit/transport/fabric.h"
#include "unit/transport/tcp_pair.h"

namespace sluice::transport {
namespace {

using namespace testing;  // NOLINT: the fabrics

// Lines of this process's log that hold a text. Thread-safe.
class Lines final : public google::LogSink {
 public:
  explicit Lines(std::string text) : text_(std::move(text)) { google::AddLogSink(this); }
  ~Lines() override { google::RemoveLogSink(this); }
  void send(google::LogSeverity, const char*, const char*, int, const struct tm*, const char* message,
            size_t length) override {
    // Long lines are wrapped.
    std::string line;
    for (const std::string& word : StrSplit(std::string(message, length), ' '))
      if (const auto text = StrTrim(word); !text.empty())
        line += (line.empty() ? "" : " ") + std::string(text);
    if (line.find(text_) != std::string::npos) lines_.Notify([&](auto& lines) { lines.push_back(line); });
  }
  // The first `count` of them.
  std::vector<std::string> Await(size_t count) {
    return lines_.Await(
        30s, [&](const auto& lines) { return lines.size() >= count; },
        [](const auto& lines, bool) { return lines; });
  }

 private:
  const std::string text_;
  Guarded<std::vector<std::string>> lines_;
};

std::shared_ptr<ScriptMachine> WhoConnectsTo(const std::string& address) {
  auto machine = std::make_shared<ScriptMachine>();
  machine->on_start = [address](Time, Network& network) {
    network.Send(network.Connect(address), MakeMessage(1));
  };
  return machine;
}

// Told of `address` three times, and each time with `why`.
void ExpectComplaints(const std::string& address, const std::string& why) {
  TcpFabric fabric;
  Lines lines(address);
  fabric.Start("lonely", WhoConnectsTo(address), {.handshake_timeout = 20ms, .connect_patience = 50ms});
  const auto told = lines.Await(3);
  ASSERT_GE(told.size(), 3u);
  for (const std::string& line : told) {
    EXPECT_NE(line.find("lonely: " + address + ": no connection for "), std::string::npos) << line;
    EXPECT_NE(line.find(why), std::string::npos) << line;
  }
  fabric.StopAll();
}

TEST(ZmqConnect, NobodyListens) {
  const Listener listener(/*listens=*/false);
  ExpectComplaints(listener.address(), "DMLC_INTERFACE");
}

TEST(ZmqConnect, SomebodyListensWhoNeverGreets) {
  const Listener listener;
  ExpectComplaints(listener.address(), "DMLC_INTERFACE");
}

TEST(ZmqConnect, AnIpcSocketOfAnotherNetworkNamespaceIsNotThere) {
  ExpectComplaints(StrCat("ipc://@sluice-nobody-", getpid()), "SLUICE_TRANSPORT=auto");
}

TEST(ZmqConnect, WhoComesLateIsHeard) {
  const std::string address = StrCat("ipc://@sluice-late-", getpid());
  IpcFabric fabric;
  Lines lines(address);
  std::atomic<bool> heard = false;
  auto late = std::make_shared<ScriptMachine>();
  late->on_message = [&](Time, PeerId, wire::Message&, Network&) { heard = true; };
  fabric.Start("early", WhoConnectsTo(address), {.connect_patience = 50ms});
  EXPECT_GE(lines.Await(1).size(), 1u);
  fabric.Start("late", late, {.bind = {address}});
  EXPECT_TRUE(fabric.Until([&] { return heard.load(); }));
  fabric.StopAll();
}

}  // namespace
}  // namespace sluice::transport
