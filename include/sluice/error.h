// The exception that Sluice throws.
//
// There are two classes of errors (docs/design/errors.md):
//  - Errors that a caller can handle or report, such as bad input, a wrong shape, a lost peer or a missed
//    deadline, are thrown as sluice::Error. The message says what was wrong, with which value, where, and
//    what to do about it.
//  - A broken invariant is a bug of Sluice: it aborts the process with a message (base/check.h).
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace sluice {

enum class ErrorCode {
  kInvalidArgument,     // a value is outside what the call accepts
  kNotFound,            // a key, file or name does not exist
  kAlreadyExists,       // it exists already, perhaps with another shape, dtype or owner
  kFailedPrecondition,  // the call is right but comes at the wrong moment, such as a pull before Init
  kDataLoss,            // a file or message is truncated or corrupt
  kDeadlineExceeded,    // a wait took longer than allowed; the message names what it waited for
  kUnavailable,         // a peer is dead or unreachable; the message names it
  kPermissionDenied,    // not allowed: a file that may not be read, a node of another job or user
  kResourceExhausted,   // a limit was reached, such as memory or descriptors
  kUnimplemented,       // this build or backend lacks it (for example: no CUDA)
  kCancelled,           // the job or the run is stopping
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
