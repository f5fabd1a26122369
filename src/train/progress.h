// Shows the progress of training: a live bar on a terminal, plain lines when the output is piped.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>

#include "base/clock.h"

namespace sluice::train {

struct ProgressState {
  int epoch = 0;  // from 0
  int num_epochs = 0;
  int64_t batch = 0;  // batches done in this epoch
  int64_t num_batches = 0;
  double loss = 0;                  // the mean over this epoch so far
  std::string metric = "accuracy";  // the metric's name; empty: none is shown
  double score = 0;                 // the metric over this epoch so far
  double samples_per_sec = 0;
  std::string samples = "images";  // what the samples are called
  Duration left{};                 // estimated time until the whole training ends
};

// Returns "epoch 2/10 [#########>          ] 450/938 loss 0.1234 acc 0.9632 5,210 img/s 0:42 left",
// never wider than `columns`.
std::string ProgressBar(const ProgressState& state, int columns);
// Returns "epoch 2 batch 450/938 loss 0.1234 accuracy 0.9632 5210 images/s".
std::string ProgressLine(const ProgressState& state);
// Returns a duration as text: 3725 s -> "1:02:05", 42 s -> "0:42".
std::string ClockText(Duration duration);

class Progress {
 public:
  // With `terminal` it redraws one line, at most ten times a second; otherwise it prints a line every `every`
  // batches (0: none). With `quiet` it prints nothing.
  Progress(std::ostream& out, bool terminal, int columns, int64_t every, bool quiet = false)
      : out_(out), terminal_(terminal), columns_(columns), every_(every), quiet_(quiet) {}
  ~Progress() { Clear(); }

  void Update(Time now, const ProgressState& state);
  // Prints a line that stays, for example an epoch's result.
  void Say(const std::string& line);

 private:
  void Clear();

  std::ostream& out_;
  const bool terminal_;
  const int columns_;
  const int64_t every_;
  const bool quiet_;
  Time last_drawn_{};
  bool drawn_ = false;
};

}  // namespace sluice::train
