// UpdateQueue: the updates of a shard that have not run yet, and the work that it shares with helper threads.
//
// An update belongs to `waiting_`; StartHelpers cuts it into pieces, which the helpers and the shard's thread
// take from SharedWork one by one. A piece points into `waiting_`, so Run returns only after every piece that
// was taken is done. All other state belongs to the shard's thread. SharedWork outlives the queue for a
// helper whose task runs late: it finds no pieces and returns. RoundCloser adds updates; Shard, Responder and
// RoundCloser run them, all on the shard's thread.
#include "server/update/update_queue.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <optional>
#include <thread>
#include <utility>

#include "base/guarded.h"
#include "base/log.h"

namespace sluice::server {
namespace {

// Bytes that one thread sums in the time that another one takes to wake. For less no helper is woken.
constexpr size_t kBytesPerHelper = 256 << 10;
constexpr size_t kPieceElements = 32 << 10, kPieceBytes = 4 * kPieceElements;  // bytes: about, for any type
static_assert(kPieceElements % compression::kAligned == 0);
// How often a thread polls a condition before it sleeps. It yields after each try, so that threads with work
// can run. All tries together take about as long as one piece or one message.
constexpr int kLooks = 50;
// A warning is logged each time that the wait for a piece has taken this long; pieces take less than 1 ms.
constexpr Duration kPatience = 1min;

template <typename Ready>
bool PollFor(Ready&& ready) {
  for (int look = 0; look < kLooks; ++look) {
    if (ready()) return true;
    std::this_thread::yield();
  }
  return ready();
}

size_t BytesOf(const UpdateQueue::Update& update) {
  return update.input.length * SizeOf(update.input.spec->dtype);
}

void Do(const UpdateQueue::Update& update, size_t begin, size_t end) {
  kvstore::UpdateInput input = update.input;
  input.gradients = update.gradients;
  kvstore::UpdateRange(*update.rule, input, update.old, update.fresh, update.part->states.arrays, begin, end);
}

}  // namespace

// The pieces that the shard's thread and the helpers share. Thread-safe.
class UpdateQueue::SharedWork {
 public:
  void Put(const Update& update) {
    progress_.With([&](Progress& progress) {
      for (size_t begin = 0; begin < update.input.length; begin += kPieceElements)
        progress.pieces.push_back({&update, begin, std::min(begin + kPieceElements, update.input.length)});
      left_ = progress.pieces.size();
    });
  }
  // Takes and runs pieces until none is left.
  void Work() {
    struct FinishesPiece {
      SharedWork& work;
      ~FinishesPiece() { work.FinishPiece(); }
    };
    while (const std::optional<Piece> piece = Take()) {
      const FinishesPiece finishes{*this};
      try {
        Do(*piece->update, piece->begin, piece->end);
      } catch (...) {  // out of memory, on any thread: Run rethrows it on the shard's thread
        progress_.With([](Progress& progress) {
          if (progress.failure == nullptr) progress.failure = std::current_exception();
        });
      }
    }
  }
  std::exception_ptr TakeFailure() {
    return progress_.With([](Progress& progress) { return std::exchange(progress.failure, nullptr); });
  }
  // Marks the helper as at work. False: it is at work already and needs no new task.
  bool StartHelper(size_t helper) {
    return progress_.With([&](Progress& progress) {
      progress.at_work.resize(std::max(progress.at_work.size(), helper + 1));
      return std::exchange(progress.at_work[helper], 1) == 0;
    });
  }
  // The task of a helper: runs pieces until no more come for a while (kLooks).
  void RunHelper(size_t helper) {
    do {
      Work();
    } while (PollFor([this] { return left_ > 0; }) || !StopHelper(helper));
  }
  // Waits until every piece that a thread has taken is done.
  void AwaitDone() {
    const auto done = [](const Progress& progress) { return progress.running == 0; };
    if (PollFor([this] { return running_ == 0; })) return;
    while (!progress_.Await(kPatience, done, [](Progress&, bool in_time) { return in_time; }))
      LOG(WARNING) << "a helper has had a piece of an update for long";  // also after a pause of the process
  }
  size_t left() const { return left_; }
  void Clear() {
    progress_.With([&](Progress& progress) {
      progress.pieces.clear();
      left_ = 0;
    });
  }

 private:
  struct Progress {
    std::deque<Piece> pieces;
    size_t running = 0;          // number of pieces that are taken and not done yet
    std::vector<char> at_work;   // by helper
    std::exception_ptr failure;  // the first exception since TakeFailure
  };
  std::optional<Piece> Take() {
    return progress_.With([&](Progress& progress) -> std::optional<Piece> {
      if (progress.pieces.empty()) return std::nullopt;
      const Piece piece = progress.pieces.front();
      progress.pieces.pop_front();
      left_ = progress.pieces.size();
      running_ = ++progress.running;
      return piece;
    });
  }
  void FinishPiece() {
    if (progress_.With([&](Progress& progress) { return (running_ = --progress.running) == 0; }))
      progress_.Notify([](Progress&) {});
  }
  // Marks the helper as no longer at work. False: there are pieces again.
  bool StopHelper(size_t helper) {
    return progress_.With([&](Progress& progress) {
      if (progress.pieces.empty()) progress.at_work[helper] = 0;
      return progress.pieces.empty();
    });
  }

  Guarded<Progress> progress_;
  std::atomic<size_t> left_ = 0,
                      running_ = 0;  // copies of pieces.size() and running, polled without the lock
};

UpdateQueue::UpdateQueue(Helpers helpers)
    : helpers_(std::move(helpers)), shared_work_(std::make_shared<SharedWork>()) {}

UpdateQueue::~UpdateQueue() {
  shared_work_->Clear();
  shared_work_->AwaitDone();
}

void UpdateQueue::Add(Update update) {
  update.part->update_waits = true;
  bytes_ += BytesOf(update);
  waiting_.push_back(std::move(update));
}

void UpdateQueue::StartHelpers() {
  if (bytes_ / kBytesPerHelper <= 1) return;
  for (; shared_ < waiting_.size(); ++shared_) shared_work_->Put(waiting_[shared_]);
  const size_t wanted = std::min(helpers_.size(), shared_work_->left() * kPieceBytes / kBytesPerHelper);
  for (size_t i = 0; i < wanted; ++i) {
    if (shared_work_->StartHelper(i)) helpers_[i]->Post([work = shared_work_, i] { work->RunHelper(i); });
  }
}

void UpdateQueue::Run() {
  if (waiting_.empty()) return;
  StartHelpers();
  std::exception_ptr failure;
  try {
    for (size_t i = shared_; i < waiting_.size(); ++i) Do(waiting_[i], 0, waiting_[i].input.length);
  } catch (...) {
    failure = std::current_exception();  // no update may be made a second time
  }
  shared_work_->Work();
  shared_work_->AwaitDone();
  for (const Update& update : waiting_) {
    update.part->closed.Clear();
    update.part->update_waits = false;
  }
  waiting_.clear();
  bytes_ = shared_ = 0;
  const std::exception_ptr shared_failure = shared_work_->TakeFailure();
  if (failure == nullptr) failure = shared_failure;
  if (failure != nullptr) std::rethrow_exception(failure);
}

}  // namespace sluice::server
