// What a caller of Sluice can catch.
//
// Two classes of error exist (see docs/design/errors.md):
//  - sluice::Error: something a caller can handle or report: bad input, a wrong shape, a lost peer, a
//  deadline.
//    The message says what was wrong, with which value, where, and what to do about it.
//  - a broken invariant, which is a bug of ours: it aborts the process with a message (base/check.h).
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace sluice {

enum class ErrorCode {
  kInvalidArgument,     // a value is outside what the call accepts
  kNotFound,            // a key, file or name does not exist
  kAlreadyExists,       // declared before with another shape, dtype or owner
  kFailedPrecondition,  // right call, wrong moment: pull before init, async with update_on_kvstore=false
  kDataLoss,            // a file or message is truncated or corrupt
  kDeadlineExceeded,    // waited as long as was allowed; the message names what for
  kUnavailable,         // a peer is dead or unreachable; the message names it
  kPermissionDenied,    // wrong job secret
  kResourceExhausted,   // a limit was reached
  kUnimplemented,       // this build or backend lacks it (for example: no CUDA)
  kCancelled,           // the job is stopping
};

std::string_view ErrorCodeName(ErrorCode code);

class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ErrorCode code() const { return code_; }

 private:
  ErrorCode code_;
};

}  // namespace sluice
