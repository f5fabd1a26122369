// A training step that is warm takes no memory from the heap: arrays, events, graph nodes and all that goes
// with them come from memory that earlier steps have used. What oneDNN takes inside its primitives is its
// own.
//
// A program of its own: it replaces operator new and, where no sanitizer has its own, aligned_alloc, which
// arrays come from.
#include <dlfcn.h>
#include <execinfo.h>
#include <gtest/gtest.h>
#include <link.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <sstream>

#include "collective/reducer.h"
#include "kvstore/local/local_store.h"
#include "sluice/autograd.h"
#include "sluice/loss.h"
#include "sluice/models.h"
#include "sluice/trainer.h"
#include "tensor/access.h"
#include "unit/tensor/gate.h"

namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SLUICE_OWN_HEAP 0
#else
#define SLUICE_OWN_HEAP 1
#endif

// Where oneDNN's code lies.
struct CodeOfOneDnn {
  CodeOfOneDnn() {
    dl_iterate_phdr(
        [](dl_phdr_info* info, size_t, void* self) {
          if (std::strstr(info->dlpi_name, "libdnnl") == nullptr) return 0;
          for (int i = 0; i < info->dlpi_phnum; ++i) {
            const auto& part = info->dlpi_phdr[i];
            if (part.p_type != PT_LOAD || (part.p_flags & PF_X) == 0) continue;
            static_cast<CodeOfOneDnn*>(self)->begin = info->dlpi_addr + part.p_vaddr;
            static_cast<CodeOfOneDnn*>(self)->end = info->dlpi_addr + part.p_vaddr + part.p_memsz;
          }
          return 0;
        },
        this);
  }
  bool Has(const void* address) const {
    const auto at = reinterpret_cast<uintptr_t>(address);
    return at >= begin && at < end;
  }
  uintptr_t begin = 0, end = 0;
};

// Allocations of all threads while it counts. The tests' one global: operator new has no other way to it.
struct Heap {
  void Took(const void* caller) {
    if (!counting) return;
    if (onednn.Has(caller)) {
      ++onednns;
      return;
    }
    const size_t place = ours++;
    if (place < calls.size()) depth[place] = backtrace(calls[place].data(), static_cast<int>(kDepth));
  }
  // The first few frames, as offsets in this program, for addr2line.
  std::string Describe() const {
    std::ostringstream text;
    for (size_t i = 0; i < std::min<size_t>(ours, calls.size()); ++i) {
      text << "\n  allocation " << i << ":";
      for (int frame = 2; frame < depth[i]; ++frame) {
        Dl_info info{};
        void* const address = calls[i][static_cast<size_t>(frame)];
        if (dladdr(address, &info) == 0) continue;
        text << ' ' << std::hex
             << reinterpret_cast<uintptr_t>(address) - reinterpret_cast<uintptr_t>(info.dli_fbase)
             << std::dec;
      }
    }
    return text.str();
  }

  static constexpr size_t kDepth = 14;
  const CodeOfOneDnn onednn;
  std::atomic<bool> counting = false;
  std::atomic<size_t> ours = 0, onednns = 0;
  std::array<std::array<void*, kDepth>, 24> calls{};
  std::array<int, 24> depth{};
};
std::atomic<Heap*> heap = nullptr;

[[gnu::always_inline]] inline void* Take(size_t size, size_t alignment) {
  if (Heap* const hears = heap; hears != nullptr) hears->Took(__builtin_return_address(0));
  void* data = nullptr;
  return posix_memalign(&data, std::max(alignment, sizeof(void*)), std::max<size_t>(size, 1)) == 0 ? data
                                                                                                   : nullptr;
}

[[gnu::always_inline]] inline void* Required(void* data) {
  if (data == nullptr) throw std::bad_alloc();
  return data;
}

}  // namespace

[[gnu::noinline]] void* operator new(size_t size) {
  return Required(Take(size, alignof(std::max_align_t)));
}
[[gnu::noinline]] void* operator new[](size_t size) {
  return Required(Take(size, alignof(std::max_align_t)));
}
[[gnu::noinline]] void* operator new(size_t size, std::align_val_t to) {
  return Required(Take(size, static_cast<size_t>(to)));
}
[[gnu::noinline]] void* operator new[](size_t size, std::align_val_t to) {
  return Required(Take(size, static_cast<size_t>(to)));
}
[[gnu::noinline]] void operator delete(void* data) noexcept {
  std::free(data);
}
[[gnu::noinline]] void operator delete[](void* data) noexcept {
  std::free(data);
}
[[gnu::noinline]] void operator delete(void* data, size_t) noexcept {
  std::free(data);
}
[[gnu::noinline]] void operator delete[](void* data, size_t) noexcept {
  std::free(data);
}
[[gnu::noinline]] void operator delete(void* data, std::align_val_t) noexcept {
  std::free(data);
}
[[gnu::noinline]] void operator delete[](void* data, std::align_val_t) noexcept {
  std::free(data);
}
[[gnu::noinline]] void operator delete(void* data, size_t, std::align_val_t) noexcept {
  std::free(data);
}
[[gnu::noinline]] void operator delete[](void* data, size_t, std::align_val_t) noexcept {
  std::free(data);
}

#if SLUICE_OWN_HEAP
extern "C" void* aligned_alloc(size_t alignment, size_t size) noexcept {
  return Take(size, alignment);
}
#endif

namespace sluice {
namespace {

class AllocationsTest : public ::testing::Test {
 protected:
  static constexpr int64_t kBatch = 8;

  void SetUp() override {
    void* frame[1];
    backtrace(frame, 1);  // the first call loads a library
    heap_.ours = heap_.onednns = 0;
    heap = &heap_;
  }
  // The same for all tests, and never gone: streams end when they end.
  static Heap& TheHeap() {
    static Heap the_heap;
    return the_heap;
  }

  static nn::Sequential Recurrent() {
    nn::Sequential net;
    net.Add("lstm", nn::Lstm(6, {.num_layers = 2, .dropout = 0.5})).Add("gru", nn::Gru(5));
    net.Add("rnn", nn::Rnn(4, ops::RnnActivation::kTanh)).Add("last", nn::SequenceLast());
    net.Add("fc", nn::Dense(10));
    return net;
  }
  static Shape InputOf(const std::string& name) {
    if (name == "recurrent") return {kBatch, 7, 5};
    if (name.starts_with("text")) return {kBatch, 16};
    return name == "resnet20" ? Shape{kBatch, 3, 32, 32} : Shape{kBatch, 1, 28, 28};
  }

  void MakeModel(const std::string& name, const std::vector<Context>& contexts) {
    contexts_ = contexts;
    net_ = std::make_unique<nn::Sequential>(name == "recurrent" ? Recurrent() : nn::CreateModel(name));
    parameters_ = net_->CollectParams();
    parameters_.Initialize(contexts);
    const std::vector<float> labels = {0, 1, 2, 3, 4, 5, 6, 7};
    for (const Context& context : contexts) {
      images_.emplace_back(InputOf(name), context);
      images_.back().Fill(name.starts_with("text") ? 3 : 0.5);  // ids, or pixels
      labels_.push_back(NDArray::From(std::span(labels), {kBatch}, context));
      losses_.push_back((*net_)(images_.back()));  // parameters learn their shapes
    }
  }

  void Backward() {
    {
      const autograd::RecordScope record;
      for (size_t i = 0; i < contexts_.size(); ++i) losses_[i] = loss_((*net_)(images_[i]), labels_[i]);
    }
    if (before_backward_) before_backward_();
    autograd::Backward(losses_);
  }
  void Drain() {
    for (const auto& parameter : parameters_) {
      for (const NDArray& weight : parameter->list_data()) weight.WaitToRead();
    }
  }

  // What ten steps allocate after some.
  void ExpectNoneIn(const std::function<void()>& step) {
    std::vector<Context> streams = contexts_;
    streams.push_back(cpu_pinned(0));  // where `local` sums
    for (int round = 0; round < 4; ++round) {
      // A step and the next one's forward are issued before anything runs, all that may be: nothing that
      // comes later needs more at once.
      std::vector<std::unique_ptr<Gate>> gates;
      for (const Context& stream : streams) {
        gates.push_back(std::make_unique<Gate>());
        EnqueueOn(stream, "gate", Events{gates.back()->event()}, [] {});
      }
      step();
      before_backward_ = [&] {
        for (const auto& gate : gates) gate->Open();
      };
      step();
      before_backward_ = nullptr;
      WaitAll();
    }
    for (int i = 0; i < 10; ++i) {
      heap_.counting = true;
      step();
      Drain();
      heap_.counting = false;
      WaitAll();  // a stream that is held up has not let go of what it has done
    }
    RecordProperty("of_onednn", static_cast<int>(heap_.onednns));
    EXPECT_EQ(heap_.ours, 0u) << "allocations in ten steps, beside " << heap_.onednns << " of oneDNN"
                              << heap_.Describe();
  }

  void ExpectNoneWith(std::shared_ptr<KVStore> store, TrainerOptions options = {}) {
    Trainer trainer(parameters_, {.learning_rate = 0.01, .momentum = 0.9}, std::move(store), options);
    ExpectNoneIn([&] {
      trainer.PushDuringBackward(kBatch);
      Backward();
      trainer.Step(kBatch);
    });
    ExpectNoneIn([&] {
      Backward();
      trainer.Step(kBatch);
    });
  }

  static std::shared_ptr<KVStore> Local() {
    return std::make_shared<kvstore::LocalStore>("local", collective::MakeHostReducer(1));
  }
  static std::shared_ptr<KVStore> OnDevices() {
    return std::make_shared<kvstore::LocalStore>("device", collective::MakeDeviceReducer());
  }

  Heap& heap_ = TheHeap();
  std::vector<Context> contexts_;
  std::unique_ptr<nn::Sequential> net_;
  nn::ParameterDict parameters_;
  std::vector<NDArray> images_, labels_, losses_;
  const nn::SoftmaxCrossEntropyLoss loss_;
  std::function<void()> before_backward_;
};

class Allocations : public AllocationsTest, public ::testing::WithParamInterface<const char*> {};
constexpr auto kName = [](const auto& info) { return std::string(info.param); };
INSTANTIATE_TEST_SUITE_P(Of, Allocations,
                         ::testing::Values("mlp", "lenet", "resnet20", "recurrent", "text_cnn", "text_lstm",
                                           "text_gru"),
                         kName);

TEST_F(AllocationsTest, AreSeenWhereThereAreSome) {
  heap_.counting = true;
  const auto number = std::make_unique<int>(7);
  const NDArray large({1000, 1000});
  heap_.counting = false;
  EXPECT_EQ(*number, 7);
  EXPECT_GE(heap_.ours, SLUICE_OWN_HEAP ? 2u : 1u);
}

TEST_P(Allocations, NoneOfAStepByHand) {
  MakeModel(GetParam(), {cpu(0)});
  ExpectNoneIn([&] {
    Backward();
    for (const auto& parameter : parameters_) {
      if (parameter->differentiable()) parameter->data(cpu(0)) -= parameter->grad(cpu(0)) * 0.01f;
    }
  });
}

TEST_P(Allocations, NoneOfALocalStore) {
  MakeModel(GetParam(), {cpu(0)});
  ExpectNoneWith(Local());
}

TEST_P(Allocations, NoneWhereTheTrainerUpdates) {
  MakeModel(GetParam(), {cpu(0)});
  ExpectNoneWith(Local(), {.update_on_kvstore = false});
}

TEST_P(Allocations, NoneOfALocalStoreOfTwoContexts) {
  MakeModel(GetParam(), {cpu(0), cpu(1)});
  ExpectNoneWith(Local());
}

TEST_P(Allocations, NoneOfADeviceStoreOfTwoContexts) {
  MakeModel(GetParam(), {cpu(0), cpu(1)});
  ExpectNoneWith(OnDevices());
}

}  // namespace
}  // namespace sluice
