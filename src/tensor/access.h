// Access to arrays from outside the tensor library, for stores and transports: the bytes of arrays, the
// events after which they may be read or written, and where their values came from. A read or write "from
// outside" is one that does not go through Launch (storage.h), such as the network sending from an array's
// memory or receiving into it.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "base/buffer_slot.h"
#include "base/byte_range.h"
#include "base/function_ref.h"
#include "base/placed_frame.h"
#include "sluice/ndarray.h"
#include "tensor/stream.h"

namespace sluice {

// Returns whether the memory of `array` is the host's.
inline bool OnHost(const NDArray& array) {
  return array.context().kind != DeviceKind::kGpu;
}
// Returns the context on the host at which what `context` holds is read and sent: cpu_pinned(i) for gpu(i),
// so that what comes from two cards is not queued behind each other; any other context is on the host itself.
inline Context HostContextOf(Context context) {
  return context.kind == DeviceKind::kGpu ? cpu_pinned(context.id) : context;
}
// Returns `array` if it is on the host, else a copy of it there.
inline NDArray HostArray(const NDArray& array) {
  return array.AsInContext(HostContextOf(array.context()));
}

// Returns the end of the last write issued to `array`, with its error if it failed. Makes `array` row-major.
Event ReadyToRead(const NDArray& array);
// Returns what a write from outside has to wait for: the ends, without errors, of the last write and
// of all reads since. A writer that also reads the old values waits for ReadyToRead too, which carries
// the last write's error on. Makes `array` row-major.
Events PendingUses(const NDArray& array);
// Records `done` as the end of a read from outside: later writes wait for it.
void AddReader(const NDArray& array, const Event& done);
// Records `done` as the end of a write from outside: later reads and writes
// wait for it, and later reads get its error.
void SetWriter(NDArray& array, const Event& done);

// Enqueues copies of frames on the host to their places in `out`, on a GPU, one after the other, on a stream
// of the GPU on which nothing waits: their bytes are there, and nothing uses `out`. Unlike CopyTo it is a
// write from outside: the caller records it. The frames are released when they have been copied.
Event EnqueueCopyToGpu(PlacedFrames frames, const NDArray& out);
// Enqueues a copy of a part of the bytes of `array`, on a GPU, to `out`, on the host, on the GPU's stream for
// copies to the host, as CopyTo does with all of them. Both arrays have one shape and dtype. Returns the end
// of this copy.
Event EnqueueCopyToHost(const NDArray& array, const NDArray& out, ByteRange range);

// Where an array's bytes lie in a block of bytes.
struct BlockPart {
  size_t offset;
  NDArray array;
};
// Enqueues, on the stream of EnqueueCopyToGpu and like it, copies of parts of `block`, bytes on the host, to
// arrays on one GPU, which are row-major. `parts` is called when the stream comes to them, on its thread; it
// returns them in the order of their places in the block. `between` is as large as the block and on that GPU;
// it is written as the arrays are.
Event EnqueueScatterToGpu(const NDArray& block, const NDArray& between,
                          std::function<std::vector<BlockPart>()> parts);
// Returns a new array with the bytes of `arrays`, one behind the other. They are on one device. Its stream
// for copies to the host writes the array, and waits for them and for nothing else.
NDArray GatherBytes(std::span<const NDArray> arrays);

// Returns the number of writes issued so far to the array's storage, through any handle and from
// outside. A change of the memory layout alone does not count.
uint64_t WritesOf(const NDArray& array);

// These return the memory of an array's elements, row-major. The events above say when it may be read or
// written. The memory is valid while the array's storage lives; a Frame keeps the storage alive. For an
// array that may adopt memory (Adopts), it is valid until the next write from outside only, and the calls
// wait: HostBytes and HostFrame for the last write issued, MutableHostBytes for all uses issued, after which
// the array no longer adopts. They throw Error(kInvalidArgument) for an array on a GPU.
Bytes HostBytes(const NDArray& array);
MutableBytes MutableHostBytes(NDArray& array);
Frame HostFrame(const NDArray& array);
// The same; in addition `released` completes when the last copy of the frame, or of a part of it, is
// gone. The record for that is allocated from `records`.
Frame HostFrame(const NDArray& array, const Event& released, const std::shared_ptr<Allocator>& records);

// Waits until everything issued on `array` is done, and returns its elements, row-major, for views outside of
// the library. From here on they stay at their address: the storage adopts no memory. A view is valid while
// it holds array.storage(). Throws the failure of the last write, and what MutableHostBytes throws.
MutableBytes Export(NDArray& array);

// Returns the buffer slot through which a write from outside may replace the memory of `array` instead of
// copying into it, once PendingUses are over. Returns null, and the writer has to copy, unless `array` is a
// whole row-major storage on cpu(i) of a floating type that may move. Integers are excluded because kernels
// check them (as ids, lengths) before they use them, and the process that leases the memory could change them
// in between.
BufferSlot* BufferSlotOf(const NDArray& array);
// Marks `array` as one that may adopt memory, from here on until MutableHostBytes is called for it.
void LetAdopt(NDArray& array);
// Whether `array` is marked so. A caller that must not wait tests it before it calls the functions above.
bool Adopts(const NDArray& array);

// An array's origin is the key of the store that its present value was pulled from. A store sets it when it
// issues the pull; the next write to the array makes it invalid.
//
// Notes that the last write issued to `array` brings a value of `origin`, a pointer that identifies a
// store's key: it is compared and never dereferenced. Does nothing for a view of a part of a storage.
void SetOrigin(const NDArray& array, const std::shared_ptr<const void>& origin);
// Returns the origin, or null if none was set, or if a write to the array's storage has been issued since.
std::shared_ptr<const void> OriginOf(const NDArray& array);

// Enqueues `work` on the stream of `context`, after `after` (Stream::Enqueue).
Event EnqueueOn(Context context, Label what, std::span<const Event> after, Stream::Work work);
// Calls body(begin, end) for consecutive pieces of [0, n), each at least `grain` long, in parallel on the
// context's share of the cores. May be called only by work that runs on the stream of a cpu context.
void ForPieces(int64_t n, int64_t grain, FunctionRef<void(int64_t begin, int64_t end)> body);

}  // namespace sluice
