#include "profile.h"

#include <algorithm>
#include <cstdio>

#include "base/strings.h"

namespace sluice::bench {
namespace {

std::string Line(const std::string& what, double calls, double microseconds, double share) {
  char numbers[96];
  std::snprintf(numbers, sizeof numbers, " | %.4g | %.1f | %.1f %% |\n", calls, microseconds, 100 * share);
  return StrCat("| ", what, numbers);
}

}  // namespace

void Profile::OnOperation(const Operation& operation) {
  rows_.With([&](auto& rows) {
    Row& row = rows[{operation.what, operation.cost.shape}];
    row.what = operation.what;
    row.shape = operation.cost.shape;
    ++row.calls;
    row.time += operation.ended - operation.began;
    row.flops += operation.cost.flops;
    row.bytes += operation.cost.bytes;
  });
}

void Profile::Clear() {
  rows_.With([](auto& rows) { rows.clear(); });
}

std::vector<Profile::Row> Profile::rows(bool by_shape) const {
  std::vector<Row> sorted;
  rows_.With([&](const auto& rows) {
    for (const auto& [key, row] : rows) {
      if (by_shape || sorted.empty() || sorted.back().what != row.what) {
        sorted.push_back(row);
        continue;
      }
      sorted.back().calls += row.calls;
      sorted.back().time += row.time;
      sorted.back().flops += row.flops;
      sorted.back().bytes += row.bytes;
    }
  });
  std::stable_sort(sorted.begin(), sorted.end(), [](const Row& a, const Row& b) { return a.time > b.time; });
  return sorted;
}

std::string Profile::Table(int steps, Duration elapsed) const {
  std::string table = "| operation | calls per step | us per step | of the step |\n|---|---|---|---|\n";
  const double all = ToSeconds(elapsed);
  double calls = 0, busy = 0;
  for (const Row& row : rows()) {
    const double seconds = ToSeconds(row.time);
    calls += static_cast<double>(row.calls);
    busy += seconds;
    table += Line(row.what, static_cast<double>(row.calls) / steps, seconds / steps * 1e6, seconds / all);
  }
  table += Line("between operations", calls / steps, (all - busy) / steps * 1e6, (all - busy) / all);
  table += Line("step", calls / steps, all / steps * 1e6, 1);
  return table;
}

}  // namespace sluice::bench
