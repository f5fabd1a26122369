// Payloads that stay where they are: loops that share memory, and those that cannot.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstring>

#include "base/guarded.h"
#include "sluice/error.h"
#include "transport/shm/shared_memory.h"
#include "transport/shm/unix_socket.h"
#include "unit/transport/fabric.h"

namespace sluice::transport {
namespace {

using namespace testing;  // NOLINT: the fabrics
using ::testing::HasSubstr;

constexpr size_t kPayload = 10'000;

// Sends what it is told to whoever it connected to, and keeps what comes.
class Peer {
 public:
  explicit Peer(const std::string& address = {}) : machine(std::make_shared<ScriptMachine>()) {
    machine->on_start = [this, address](Time, Network& network) {
      if (!address.empty()) peer = network.Connect(address);
    };
    machine->on_message = [this](Time, PeerId from, wire::Message& message, Network&) {
      peer = from;
      kept.With([&](auto& k) {
        for (Frame& frame : message.payload) k.push_back(std::move(frame));
      });
    };
  }
  void Send(Loop& loop, Frame frame) {
    loop.Post([this, frame](Time, Network& network) { network.Send(peer, MakePush(++sent, frame)); });
  }
  // A message of them all.
  void Send(Loop& loop, wire::Frames frames) {
    loop.Post([this, frames](Time, Network& network) { network.Send(peer, MakePush(++sent, frames)); });
  }
  size_t count() const {
    return kept.With([](const auto& k) { return k.size(); });
  }

  std::shared_ptr<ScriptMachine> machine;
  PeerId peer;  // the loop's thread
  uint64_t sent = 0;
  Guarded<std::vector<Frame>> kept;
};

Frame Shared(const std::shared_ptr<SharedHeap>& heap, char fill,
             std::weak_ptr<const Buffer>* held = nullptr) {
  const auto buffer = std::make_shared<Buffer>(kPayload, heap);
  std::memset(buffer->data(), fill, kPayload);
  if (held) *held = buffer;
  return Frame::Of(buffer);
}

class ZmqMemoryTest : public ::testing::Test {
 protected:
  static LoopOptions Sharing(std::shared_ptr<SharedHeap> heap) {
    LoopOptions options;
    options.share_payloads = SharePayloadsOf(std::move(heap));
    return options;
  }
  void Start(LoopOptions of_server, LoopOptions of_worker) {
    of_server.role = wire::Role::kServer;
    fabric_.StartBound("server", server_.machine, std::move(of_server));
    worker_.emplace(fabric_.loop(0).addresses()[0]);
    fabric_.Start("worker", worker_->machine, std::move(of_worker));
  }
  // Sends until a payload is leased: before the two have met, payloads travel.
  bool Meet() {
    for (size_t i = 1; i < 10'000; ++i) {
      worker_->Send(fabric_.loop(1), Shared(heap_, 'm'));
      if (!fabric_.Until([&] { return server_.count() >= i; })) return false;
      if (fabric_.loop(0).counters().leases_opened > 0) break;
    }
    server_.kept.With([](auto& kept) { kept.clear(); });
    return fabric_.loop(0).counters().leases_opened == 1;
  }
  // Returns the leases that the server keeps, on its loop.
  void ReturnLeases() {
    fabric_.loop(0).Post([this](Time, Network&) { server_.kept.With([](auto& kept) { kept.clear(); }); });
  }

  const std::shared_ptr<SharedHeap> heap_ = std::make_shared<SharedHeap>();
  ZmqFabric fabric_{"tcp://127.0.0.1:0"};
  Peer server_;
  std::optional<Peer> worker_;
};

TEST_F(ZmqMemoryTest, APayloadIsReadWhereItLiesAndItsOwnerIsToldWhenItIsFree) {
  Start(Sharing(std::make_shared<SharedHeap>()), Sharing(heap_));
  ASSERT_TRUE(Meet());
  std::weak_ptr<const Buffer> held;
  worker_->Send(fabric_.loop(1), Shared(heap_, 'g', &held));
  ASSERT_TRUE(fabric_.Until([&] { return server_.count() == 1; }));
  server_.kept.With([&](auto& kept) {
    EXPECT_TRUE(kept[0].leased());
    EXPECT_EQ(AsText(kept[0].bytes()), std::string(kPayload, 'g'));
  });
  EXPECT_FALSE(held.expired());
  ReturnLeases();
  // Nothing is sent back: the worker is woken for this alone.
  EXPECT_TRUE(Eventually([&] { return held.expired(); }));
  EXPECT_EQ(fabric_.loop(1).counters().leased_copies, 0u);
  fabric_.StopAll();
}

TEST_F(ZmqMemoryTest, AnswersStayInTheServersMemory) {
  const auto servers = std::make_shared<SharedHeap>();
  Start(Sharing(servers), Sharing(heap_));
  ASSERT_TRUE(Meet());
  std::weak_ptr<const Buffer> held;
  server_.Send(fabric_.loop(0), Shared(servers, 'w', &held));
  ASSERT_TRUE(fabric_.Until([&] { return worker_->count() == 1; }));
  worker_->kept.With([&](auto& kept) {
    EXPECT_TRUE(kept[0].leased());
    EXPECT_EQ(AsText(kept[0].bytes()), std::string(kPayload, 'w'));
    kept.clear();
  });
  worker_->Send(fabric_.loop(1), Shared(heap_, 'n'));  // with what comes next, it is seen to be free
  EXPECT_TRUE(Eventually([&] { return held.expired(); }));
  fabric_.StopAll();
}

TEST_F(ZmqMemoryTest, SmallFramesAreJoinedOrPackedBesideThoseThatAreLeased) {
  Start(Sharing(std::make_shared<SharedHeap>()), Sharing(heap_));
  ASSERT_TRUE(Meet());
  const Frame large = Shared(heap_, 'l'), other = Shared(heap_, 'o');
  const Frame own = Frame::Copy(AsBytes(std::string(1500, 'a') + std::string(1500, 'b')));
  const Frame a = own.Slice(0, 1400), b = own.Slice(1500, 1400);
  const std::vector<wire::Frames> messages{
      {a, b, a},                                                              // packed, none leased
      {large.Slice(0, 5000), large.Slice(5000, 2000), large.Slice(7000, 8)},  // joined, leased as one
      {a, own.Slice(1400, 100), b},  // joined, too small to be leased
      {large, a, other, b},          // two leased, two packed
      {a, large, b},
      {large, other, Frame()},
      {large, a},
  };
  size_t expected = 0;
  for (size_t m = 0; m < messages.size(); ++m) {
    SCOPED_TRACE(m);
    worker_->Send(fabric_.loop(1), messages[m]);
    expected += messages[m].size();
    ASSERT_TRUE(fabric_.Until([&] { return server_.count() == expected; }));
    server_.kept.With([&](auto& kept) {
      for (size_t i = 0; i < messages[m].size(); ++i) {
        EXPECT_EQ(AsText(kept[expected - messages[m].size() + i].bytes()), AsText(messages[m][i].bytes()))
            << i;
      }
    });
  }
  ReturnLeases();
  fabric_.StopAll();
}

TEST_F(ZmqMemoryTest, WhatLiesElsewhereIsCopiedOnce) {
  Start(Sharing(std::make_shared<SharedHeap>()), Sharing(heap_));
  ASSERT_TRUE(Meet());
  const std::string text(kPayload, 'e');
  worker_->Send(fabric_.loop(1), Frame::Copy(AsBytes(text)));
  ASSERT_TRUE(fabric_.Until([&] { return server_.count() == 1; }));
  server_.kept.With([&](auto& kept) {
    EXPECT_TRUE(kept[0].leased());
    EXPECT_EQ(AsText(kept[0].bytes()), text);
  });
  EXPECT_EQ(fabric_.loop(1).counters().leased_copies, 1u);
  worker_->Send(fabric_.loop(1), Frame::Copy(AsBytes("small")));
  ASSERT_TRUE(fabric_.Until([&] { return server_.count() == 2; }));
  EXPECT_EQ(fabric_.loop(1).counters().leased, 2u);
  fabric_.StopAll();
}

TEST_F(ZmqMemoryTest, WhoSharesNoneIsSentPayloads) {
  Start({}, Sharing(heap_));
  worker_->Send(fabric_.loop(1), Shared(heap_, 's'));
  ASSERT_TRUE(fabric_.Until([&] { return server_.count() == 1; }));
  worker_->Send(fabric_.loop(1), Shared(heap_, 's'));
  ASSERT_TRUE(fabric_.Until([&] { return server_.count() == 2; }));
  server_.kept.With([](auto& kept) {
    for (const Frame& frame : kept) EXPECT_FALSE(frame.leased());
  });
  EXPECT_EQ(fabric_.loop(1).counters().leased, 0u);
  fabric_.StopAll();
}

TEST_F(ZmqMemoryTest, WhoRequiresSharedMemoryFailsWithoutAndSaysWhy) {
  LoopOptions worker = Sharing(heap_);
  worker.requires_shared_memory = true;
  Start({}, worker);
  ASSERT_TRUE(fabric_.loop(1).Join(30s));
  EXPECT_THAT(fabric_.loop(1).failure(), HasSubstr("no memory is shared with tcp://127.0.0.1:"));
  EXPECT_THAT(fabric_.loop(1).failure(), HasSubstr("it shares none; SLUICE_TRANSPORT is shm"));
  fabric_.StopAll();
}

// The rendezvous of another host is a name that nobody has here.
TEST_F(ZmqMemoryTest, ARendezvousThatIsNotOfThisHostIsSaidToBe) {
  SharedMemory memory(heap_, false, HeapAllocator());
  const Status status = memory.Accept(PeerId{1}, {"sluice-of-nobody", std::string(16, 't'), {}});
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.failure().message, HasSubstr("another host or in another network namespace"));
  const Status none = memory.Accept(PeerId{1}, {{}, {}, "it shares none"});
  EXPECT_EQ(none.failure().message, "it shares none");
  EXPECT_FALSE(memory.Accept(PeerId{1}, {std::string(200, 'x'), "t", {}}).ok());
}

// As where there is no memfd: a hundred requests would find the same.
TEST_F(ZmqMemoryTest, WhoCanHaveNoMemoryOfItsOwnDoesNotRequestAgain) {
  SharedMemory server(std::make_shared<SharedHeap>(), true, HeapAllocator());
  SharedMemory worker(heap_, false, HeapAllocator());
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &none), 0);
  const Status status = worker.Accept(PeerId{1}, server.OfferTo(PeerId{1}));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.failure().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(status.failure().message, HasSubstr("ulimit -f"));
}

TEST_F(ZmqMemoryTest, ARendezvousThatClosesAfterTheRequestIsSaidToBe) {
  const FileDescriptor rendezvous = ListenAt("sluice-test-of-a-shut-rendezvous").OrThrow();
  SharedMemory memory(heap_, false, HeapAllocator());
  ASSERT_TRUE(memory.Accept(PeerId{7}, {"sluice-test-of-a-shut-rendezvous", std::string(16, 't'), {}}).ok());
  memory.Read();
  EXPECT_TRUE(memory.TakeRefused().empty());
  {
    std::byte room[16];
    Received received;
    ASSERT_EQ(ReceiveRecord(rendezvous.get(), room, &received), ReceiveResult::kRecord);
  }
  memory.Read();
  EXPECT_EQ(memory.TakeRefused(), std::vector{PeerId{7}});
  memory.CloseUnused();
}

// The kernel keeps few who wait, however many workers a job has.
TEST_F(ZmqMemoryTest, WhoFindsARendezvousCrowdedMayComeAgain) {
  SharedMemory server(std::make_shared<SharedHeap>(), true, HeapAllocator());
  SharedMemory worker(heap_, false, HeapAllocator());
  Status status;
  uint64_t last = 0;
  while (status && ++last < 5000) status = worker.Accept(PeerId{last}, server.OfferTo(PeerId{last}));
  if (status) GTEST_SKIP() << "net.unix.max_dgram_qlen is beyond 5000";
  EXPECT_EQ(status.failure().code, ErrorCode::kResourceExhausted);
  server.Read();
  EXPECT_TRUE(worker.Accept(PeerId{last}, server.OfferTo(PeerId{last})).ok());
}

class MemoryRendezvousTest : public ::testing::Test {
 protected:
  // What is at the other end afterwards.
  static ReceiveResult Request(SharedMemory& memory, const std::string& rendezvous, const std::string& token,
                               int returns) {
    auto [mine, theirs] = MakeSocketPair().OrThrow();
    const int descriptors[] = {theirs.get(), returns};
    EXPECT_TRUE(SendTo(rendezvous, AsBytes(token), std::span(descriptors, returns < 0 ? 1 : 2)).ok());
    theirs.Reset();
    memory.Read();
    Received received;
    std::byte room[64];
    return ReceiveRecord(mine.get(), room, &received);
  }
};

TEST_F(MemoryRendezvousTest, OpensForATokenOnceAndForNothingElse) {
  SharedMemory memory(std::make_shared<SharedHeap>(), true, HeapAllocator());
  const auto returns = LeaseReturns::Make().OrThrow();
  const auto offer = memory.OfferTo(PeerId{1});
  EXPECT_EQ(offer.token.size(), 16u);
  const auto request = [&](const std::string& token, int fd) {
    return Request(memory, offer.rendezvous, token, fd);
  };
  EXPECT_EQ(request(std::string(16, 'x'), returns->fd()), ReceiveResult::kClosed);
  EXPECT_EQ(request("", returns->fd()), ReceiveResult::kClosed);
  EXPECT_EQ(request(offer.token + "more", returns->fd()), ReceiveResult::kClosed);
  EXPECT_EQ(request(offer.token, -1), ReceiveResult::kClosed);
  EXPECT_EQ(memory.descriptors().size(), 1u);
  EXPECT_EQ(request(offer.token, returns->fd()),
            ReceiveResult::kRecord);  // where the other end returns leases
  EXPECT_EQ(memory.descriptors().size(), 2u);
  memory.CloseUnused();
}

// Whoever is of this host can read the rendezvous's name: /proc/net/unix.
TEST_F(MemoryRendezvousTest, RequestsWithoutATokenDoNotCrowdIt) {
  SharedMemory memory(std::make_shared<SharedHeap>(), true, HeapAllocator());
  const auto returns = LeaseReturns::Make().OrThrow();
  const auto offer = memory.OfferTo(PeerId{1});
  const int descriptors[] = {returns->fd()};
  for (int i = 0; i < 2000; ++i)
    EXPECT_TRUE(SendTo(offer.rendezvous, AsBytes(std::string(16, 'x')), descriptors).ok());
  EXPECT_EQ(Request(memory, offer.rendezvous, offer.token, returns->fd()), ReceiveResult::kRecord);
}

TEST_F(MemoryRendezvousTest, ATokenIsGoodOnce) {
  SharedMemory memory(std::make_shared<SharedHeap>(), true, HeapAllocator());
  const auto returns = LeaseReturns::Make().OrThrow();
  const auto offer = memory.OfferTo(PeerId{1});
  auto [mine, theirs] = MakeSocketPair().OrThrow();
  const int descriptors[] = {theirs.get(), returns->fd()};
  ASSERT_TRUE(SendTo(offer.rendezvous, AsBytes(offer.token), descriptors).ok());
  memory.Read();
  EXPECT_EQ(memory.descriptors().size(), 2u);
  EXPECT_EQ(Request(memory, offer.rendezvous, offer.token, returns->fd()), ReceiveResult::kClosed);
  EXPECT_EQ(memory.descriptors().size(), 2u);
  memory.OfferTo(PeerId{1});  // asks again: what it has stays until it comes
  EXPECT_EQ(memory.descriptors().size(), 2u);
  mine.Reset();
  memory.Read();
  EXPECT_EQ(memory.descriptors().size(), 1u);
}

TEST_F(MemoryRendezvousTest, LeaseReturnsThatAreNoneAreRefused) {
  SharedMemory memory(std::make_shared<SharedHeap>(), true, HeapAllocator());
  const auto offer = memory.OfferTo(PeerId{1});
  const auto small = ShmSegment::Make(4096).OrThrow();
  EXPECT_EQ(Request(memory, offer.rendezvous, offer.token, small->fd()), ReceiveResult::kClosed);
  EXPECT_EQ(memory.descriptors().size(), 1u);
}

// A server forgets a worker that it takes for dead, whose arrays are read all the same.
TEST(SharedMemoryTest, LeasedMemoryStaysAsItIsForWhoIsForgotten) {
  const auto heap = std::make_shared<SharedHeap>();
  SharedMemory server(heap, true, HeapAllocator());
  SharedMemory worker(std::make_shared<SharedHeap>(), false, HeapAllocator());
  ASSERT_TRUE(worker.Accept(PeerId{1}, server.OfferTo(PeerId{1})).ok());
  server.Read();
  worker.Read();
  const auto lease = [&](std::weak_ptr<const Buffer>* held) {
    const auto weight = std::make_shared<Buffer>(heap->min_leased_bytes(), heap);
    *held = weight;
    wire::Message message;
    message.payload = {Frame::Of(weight)};
    server.LeaseOut(PeerId{1}, &message);
    EXPECT_TRUE(worker.OpenLeases(PeerId{1}, &message).ok());
    return message.payload[0];
  };
  std::weak_ptr<const Buffer> held, gone;
  Frame frame = lease(&held);
  lease(&gone);
  server.Forget(PeerId{1});
  server.Read();
  EXPECT_TRUE(gone.expired());
  EXPECT_FALSE(held.expired());
  EXPECT_EQ(server.descriptors().size(), 2u);
  frame = Frame();
  server.Read();
  EXPECT_TRUE(held.expired());
  EXPECT_EQ(server.descriptors().size(), 1u);
}

}  // namespace
}  // namespace sluice::transport
