#include "gpu/runtime/machine.h"

#include <memory>

#include "base/check.h"
#include "base/strings.h"
#include "gpu/runtime/stream.h"

namespace sluice::emulation {
namespace {

std::atomic<Machine*> current = nullptr;

}  // namespace

Machine::Machine(const MachineOptions& options)
    : options_(options),
      memory_(options.cards, options.memory),
      lost_(static_cast<size_t>(options.cards)),
      open_(lost_.size()) {
  Machine* none = nullptr;
  SLUICE_CHECK(current.compare_exchange_strong(none, this)) << "there is another machine";
}

Machine::~Machine() {
  current = nullptr;
}

Machine* Machine::Current() {
  return current;
}

void Machine::FailCall(int64_t number, cudaError_t error) {
  error_ = error;
  calls_ = 0;
  failing_call_ = number;
}

void Machine::FailGrid(int64_t number) {
  grids_ = 0;
  failing_grid_ = number;
}

std::string Machine::Leaks() const {
  std::string text = memory_.Leaks();
  const auto add = [&](size_t count, const char* what) {
    if (count > 0) text += StrCat(text.empty() ? "" : ", ", count, what);
  };
  add(streams_.With([](const auto& streams) { return streams.size(); }), " streams");
  add(static_cast<size_t>(events_), " events");
  return text;
}

cudaError_t Machine::Begin(int card) {
  constexpr auto kRelaxed = std::memory_order_relaxed;
  if (calls_.fetch_add(1, kRelaxed) == failing_call_.load(kRelaxed)) return error_.load(kRelaxed);
  if (options_.driver < CUDART_VERSION) return cudaErrorInsufficientDriver;
  return Lost(card) ? cudaErrorIllegalAddress : cudaSuccess;
}

bool Machine::GridFails(int card) {
  constexpr auto kRelaxed = std::memory_order_relaxed;
  if (grids_.fetch_add(1, kRelaxed) != failing_grid_.load(kRelaxed)) return false;
  lost_[static_cast<size_t>(card)].store(true, kRelaxed);
  return true;
}

uint64_t Machine::NextSeed() {
  return options_.seed == 0 ? 0 : options_.seed * 1'000'003 + ++streams_made_;
}

void Machine::Add(CUstream_st* stream) {
  streams_.With([&](auto& streams) { streams.insert(stream); });
}

void Machine::Remove(CUstream_st* stream) {
  streams_.With([&](auto& streams) { streams.erase(stream); });
}

void Machine::Await(int card) {
  std::vector<std::shared_ptr<Mark>> marks;
  streams_.With([&](auto& streams) {
    for (CUstream_st* const stream : streams)
      if (stream->card() == card) marks.push_back(stream->Record());
  });
  for (const auto& mark : marks) mark->Await();
}

}  // namespace sluice::emulation
