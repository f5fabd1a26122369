#include "worker/gradient_stages.h"

namespace sluice::worker {

std::string_view Name(Stage stage) {
  switch (stage) {
    case Stage::kReduce:
      return "reduce";
    case Stage::kCompress:
      return "compress";
    case Stage::kQueue:
      return "queue";
    case Stage::kPush:
      return "push";
    case Stage::kWait:
      return "wait";
    case Stage::kDeliver:
      return "deliver";
    case Stage::kBroadcast:
      return "broadcast";
  }
  return "unknown";
}

}  // namespace sluice::worker
