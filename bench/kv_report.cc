#include "kv_report.h"

#include <cstdio>
#include <utility>

#include "base/strings.h"

namespace sluice::bench {
namespace {

std::string Text(const char* format, double value) {
  char text[32];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

}  // namespace

nlohmann::json ToJson(const RawFigures& raw) {
  return {{"two_streams_gbit_per_s", raw.two_streams_gbit},
          {"zmq_gbit_per_s", raw.zmq_gbit},
          {"zmq_summed_gbit_per_s", raw.zmq_summed_gbit},
          {"zmq_both_ways_gbit_per_s", raw.zmq_both_ways_gbit},
          {"zmq_rtt_us", raw.zmq_rtt_us},
          {"zmq_loop_gbit_per_s", raw.zmq_loop.gbit},
          {"zmq_loop_cpu_s_per_gb", raw.zmq_loop.cpu_s_per_gb},
          {"zmq_least_gbit_per_s", raw.zmq_least.gbit},
          {"copy_gbyte_per_s", {raw.copy.one, raw.copy.two}},
          {"add_gbyte_per_s", {raw.add.one, raw.add.two}}};
}

void PrintRaw(const RawFigures& raw, size_t message_bytes) {
  const std::pair<const char*, double> rates[] = {{"raw, 2 streams", raw.two_streams_gbit},
                                                  {"raw ZeroMQ", raw.zmq_gbit},
                                                  {"  summed", raw.zmq_summed_gbit},
                                                  {"  and back", raw.zmq_both_ways_gbit},
                                                  {"  as the store's", raw.zmq_loop.gbit},
                                                  {"  and summed", raw.zmq_least.gbit},
                                                  {"memory copy", raw.copy.one * 8},
                                                  {"  on 2 threads", raw.copy.two * 8},
                                                  {"a += b", raw.add.one * 8},
                                                  {"  on 2 threads", raw.add.two * 8}};
  for (const auto& [what, rate] : rates) {
    if (rate > 0) std::printf("%-16s%7s %4s %6.3g\n", what, HumanBytes(message_bytes).c_str(), "", rate);
  }
  if (raw.zmq_rtt_us > 0) std::printf("raw ZeroMQ round trip of 4 bytes: %.1f us\n", raw.zmq_rtt_us);
  std::fflush(stdout);
}

void PrintHead(const std::string& about) {
  std::printf(
      "%s. Gbit/s: payload per direction.\n"
      "p50, p99: us of one call. raw: share of raw two streams. rtts: p50 in raw\n"
      "ZeroMQ round trips. CPU: seconds per GB, of the workers and of the servers.\n"
      "copies: of a byte of payload on its way, by processes and kernel.\n",
      about.c_str());
  std::printf("%-16s%7s %4s %6s %6s %6s %4s %4s %5s %5s %6s\n", "", "bytes", "keys", "Gbit/s", "p50", "p99",
              "raw", "rtts", "CPU w", "s", "copies");
  std::fflush(stdout);
}

void PrintLine(const nlohmann::json& line) {
  double worker = 0, server = 0;
  for (const auto& [process, seconds] : line["cpu_s_per_gb"].items())
    (process.starts_with("worker") ? worker : server) += seconds.get<double>();
  const double rate = line["gbit_per_s"], p50 = line["p50_us"], p99 = line["p99_us"];
  const bool beside = line.contains("raw") && line["raw"]["two_streams_gbit_per_s"].get<double>() > 0;
  const std::string of_raw = beside ? Text("%.2f", line["directions"].get<double>() * rate /
                                                       line["raw"]["two_streams_gbit_per_s"].get<double>())
                                    : "-";
  const std::string round_trips = beside ? Text("%.3g", p50 / line["raw"]["zmq_rtt_us"].get<double>()) : "-";
  std::printf("%-16s%7s %4lld %6.3g %6.4g %6.4g %4s %4s %5.2g %5.2g %6.2f\n",
              line["mode"].get<std::string>().c_str(), HumanBytes(line["bytes"]).c_str(),
              line["keys"].get<long long>(), rate, p50, p99, of_raw.c_str(), round_trips.c_str(), worker,
              server, line["copies_per_byte"].get<double>());
  std::fflush(stdout);
}

}  // namespace sluice::bench
