// Gives the program that it is linked into cards and NCCL of a test machine, in place of the computer's: its
// --gpus finds them.
#include "gpu/runtime/machine.h"
#include "gpu/runtime/nccl.h"

namespace sluice::emulation {
namespace {

// They are never destroyed: the library leaves its cards to the end of the process.
[[maybe_unused]] const Machine& machine = *new Machine({.cards = 4, .seed = 1});
[[maybe_unused]] const Nccl& nccl = *new Nccl;

}  // namespace
}  // namespace sluice::emulation
