#include "server/update/updates.h"

#include <algorithm>
#include <atomic>

#include "base/check.h"
#include "base/guarded.h"

namespace sluice::server {
namespace {

// What one thread sums while another one wakes: less is not worth the waking.
constexpr size_t kBytesOfAHelper = 256 << 10;
constexpr size_t kPieceElements = 32 << 10;
static_assert(kPieceElements % compression::kAligned == 0);
// Pieces take parts of a millisecond: beyond this a thread is gone.
constexpr Duration kPatience = 1min;

size_t BytesOf(const Updates::Update& update) {
  return update.input.length * SizeOf(update.input.spec->dtype);
}

void Do(const Updates::Update& update, size_t begin, size_t end) {
  UpdateInput input = update.input;
  if (input.summed == nullptr) input.gradients = update.gradients;
  kvstore::UpdateRange(*update.rule, input, update.old, update.fresh, update.part->states.arrays, begin, end);
}

}  // namespace

// Outlives Run for a helper that comes late and finds nothing left.
struct Updates::Work {
  std::vector<Piece> pieces;
  std::atomic<size_t> next = 0;
  Guarded<size_t> done{size_t{0}};
};

void Updates::Add(Update update) {
  update.part->update_waits = true;
  waiting_.push_back(std::move(update));
}

void Updates::Take(Work& work) {
  size_t done = 0;
  for (size_t i = work.next++; i < work.pieces.size(); i = work.next++, ++done)
    Do(*work.pieces[i].update, work.pieces[i].begin, work.pieces[i].end);
  if (done > 0) work.done.Notify([done](size_t& all) { all += done; });
}

void Updates::RunTogether(size_t bytes) {
  const auto work = std::make_shared<Work>();
  for (const Update& update : waiting_)
    for (size_t begin = 0; begin < update.input.length; begin += kPieceElements)
      work->pieces.push_back({&update, begin, std::min(begin + kPieceElements, update.input.length)});
  const size_t helping = std::min(helpers_.size(), bytes / kBytesOfAHelper);
  for (size_t i = 0; i < helping; ++i) helpers_[i]->Post([work] { Take(*work); });
  Take(*work);
  const bool all_done = work->done.Await(
      kPatience, [&](size_t done) { return done == work->pieces.size(); },
      [](size_t, bool in_time) { return in_time; });
  SLUICE_CHECK(all_done) << "an update's thread has not ended";
}

void Updates::Run() {
  if (waiting_.empty()) return;
  size_t bytes = 0;
  for (const Update& update : waiting_) bytes += BytesOf(update);
  if (bytes / kBytesOfAHelper > 1) {
    RunTogether(bytes);
  } else {
    for (const Update& update : waiting_) Do(update, 0, update.input.length);
  }
  for (const Update& update : waiting_) {
    update.part->closed.Clear();
    update.part->update_waits = false;
  }
  waiting_.clear();
}

}  // namespace sluice::server
