// For stores and transports: the bytes of arrays, and the events that say when they may be touched.
#pragma once

#include "base/adopter.h"
#include "base/function_ref.h"
#include "sluice/ndarray.h"
#include "tensor/stream.h"

namespace sluice {

// Done when everything written to `array` so far is there.
Event ReadyToRead(const NDArray& array);
// What a writer from outside has to wait for: the end of the last write and of all reads since. One that
// also reads what is there waits for ReadyToRead too, which carries the last write's error on.
Events PendingUses(const NDArray& array);
// `done` is a read from outside (the network sends from this memory): later writes wait for it.
void AddReader(const NDArray& array, const Event& done);
// `done` is a write from outside: later reads and writes wait for it, and get its error.
void SetWriter(NDArray& array, const Event& done);

// How often the array's storage has been written so far, by whomever: counted when the write is issued. What
// only changes how values lie does not count.
uint64_t WritesOf(const NDArray& array);

// The elements of an array on a cpu context, as they lie in memory; row-major. Valid while the array's
// storage lives, `owner` of a frame keeps it; of one that adopts (AdopterOf) until its next write from
// outside, and there they wait: HostBytes and HostFrame for the writes issued so far, MutableHostBytes for
// all uses. When they may be read or written, the events above say.
Bytes HostBytes(const NDArray& array);
MutableBytes MutableHostBytes(NDArray& array);
Frame HostFrame(const NDArray& array);
// The same, and `released` completes when nobody holds the frame or a part of it any more.
Frame HostFrame(const NDArray& array, const Event& released, const std::shared_ptr<Allocator>& records);

// For a write from outside that may bring memory along in place of a copy, once PendingUses are over: the
// whole storage of `array`, on cpu(i), of a floating type: numbers that nobody checks before using them,
// since who lends may change them meanwhile. Null: that is not so; its elements are to be copied.
Adopter* AdopterOf(const NDArray& array);
// It may adopt from here on, until somebody asks for MutableHostBytes.
void LetAdopt(NDArray& array);
bool Adopts(const NDArray& array);  // for who must not wait

// Work on the array's own stream, after `after` and in the order of issue.
Event EnqueueOn(Context context, Label what, std::span<const Event> after, Stream::Work work);
// From such work on a cpu context: body(begin, end) for consecutive pieces of [0, n), at least `grain` long,
// on the context's share of the cores.
void ForPieces(int64_t n, int64_t grain, FunctionRef<void(int64_t begin, int64_t end)> body);

}  // namespace sluice
