// Fuzzes the bodies of envelopes. Mutations of a whole envelope mostly break the envelope itself; here the
// first byte of the input chooses the body's field, and the rest is the field's content.
#include <string>

#include "fuzz/check_envelope.h"

namespace sluice::wire {
namespace {

// The fields of Envelope's oneof in proto/envelope.proto.
constexpr unsigned kFirstBody = 16, kBodies = 29;

std::string Varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}

void CheckBody(Bytes bytes) {
  if (bytes.empty()) return;
  const unsigned field = kFirstBody + static_cast<unsigned>(bytes[0]) % kBodies;
  const std::string_view content = AsText(bytes.subspan(1));
  // Version 1, sender { role: ROLE_WORKER }.
  const std::string header("\x0d\x01\x00\x00\x00\x1a\x02\x08\x03", 9);
  constexpr unsigned kLengthDelimited = 2;
  const std::string envelope =
      header + Varint(field << 3 | kLengthDelimited) + Varint(content.size()) + std::string(content);
  CheckEnvelope(AsBytes(envelope));
}

}  // namespace
}  // namespace sluice::wire

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  sluice::wire::CheckBody({reinterpret_cast<const std::byte*>(data), size});
  return 0;
}
