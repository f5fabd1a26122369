#include "fuzz/check_envelope.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  sluice::wire::CheckEnvelope({reinterpret_cast<const std::byte*>(data), size});
  return 0;
}
