// The message that carries a batch of parts.
#pragma once

#include "worker/operation.h"

namespace sluice::worker {

// Sets the body and the payload of `message` to what the parts send or ask for. The parts are of one kind
// and agree in whatever their message has once (SendQueue::NextBatch). Payload refers to their sources.
void FillMessage(const PartOps& parts, wire::Message* message);

}  // namespace sluice::worker
