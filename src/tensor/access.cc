// Access to arrays from outside the tensor library (access.h), on top of Storage. The functions are called
// by stores and transports, on the thread of the program that issues the operation; only the release of a
// frame from HostFrame may happen on any thread. Invariant: an adopted frame is never written to; before a
// write in place, MutableHostBytes (or Launch) copies the elements back to the storage's own buffer.
#include "tensor/access.h"

#include <utility>

#include "base/pool_allocator.h"
#include "base/strings.h"
#include "sluice/error.h"
#include "tensor/kernels.h"
#include "tensor/storage.h"

namespace sluice {
namespace {

void RequireHost(const NDArray& array) {
  if (array.context().kind == DeviceKind::kGpu) {
    throw Error(ErrorCode::kInvalidArgument,
                StrCat("the bytes of an array on ", array.context(), " are not in host memory"));
  }
}

size_t BytesOf(const NDArray& array) {
  return static_cast<size_t>(array.size()) * SizeOf(array.dtype());
}

// Returns an owner that keeps the elements at their present address: the
// storage, and the adopted frame if any.
std::shared_ptr<const void> OwnerOf(const NDArray& array) {
  if (!array.storage()->adopts) return array.storage();
  struct Both {
    std::shared_ptr<internal::Storage> storage;
    Frame leased;
  };
  return std::make_shared<Both>(Both{array.storage(), array.storage()->leased()});
}

}  // namespace

Event ReadyToRead(const NDArray& array) {
  internal::DataOf(array);  // makes the array row-major
  return array.storage()->LastWrite();
}
Events PendingUses(const NDArray& array) {
  internal::DataOf(array);
  Events uses;
  array.storage()->AddUses(&uses);
  return uses;
}
void AddReader(const NDArray& array, const Event& done) {
  array.storage()->AddRead(done);
}
void SetWriter(NDArray& array, const Event& done) {
  array.storage()->SetWrite(done);
}

uint64_t WritesOf(const NDArray& array) {
  return array.storage()->writes.load(std::memory_order_relaxed);
}

Bytes HostBytes(const NDArray& array) {
  RequireHost(array);
  const internal::Data<std::byte> data = internal::DataOf<std::byte>(array);
  if (array.storage()->adopts) array.storage()->LastWrite().WaitQuietly();
  return {data.get(), BytesOf(array)};
}

MutableBytes MutableHostBytes(NDArray& array) {
  RequireHost(array);
  const internal::Data<std::byte> data = internal::DataOf<std::byte>(array);
  if (internal::Storage& storage = *array.storage(); storage.adopts) {
    for (const Event& use : PendingUses(array)) use.WaitQuietly();
    storage.CopyToOwnBuffer();
    storage.adopts = false;
  }
  return {data.get(), BytesOf(array)};
}

MutableBytes Export(NDArray& array) {
  RequireHost(array);
  const Events uses = PendingUses(array);
  array.WaitToRead();
  for (const Event& use : uses) use.WaitQuietly();
  array.storage()->stays = true;
  return MutableHostBytes(array);
}

Frame HostFrame(const NDArray& array) {
  const Bytes bytes = HostBytes(array);
  return Frame(bytes, OwnerOf(array));
}

Frame HostFrame(const NDArray& array, const Event& released, const std::shared_ptr<Allocator>& records) {
  struct Held {
    Held(std::shared_ptr<const void> of, const Event& end) : owner(std::move(of)), released(end) {}
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;
    ~Held() {
      owner = nullptr;  // releases the array before a waiter for `released` continues
      released.Complete();
    }
    std::shared_ptr<const void> owner;
    const Event released;
  };
  const Bytes bytes = HostBytes(array);
  return Frame(bytes, std::allocate_shared<Held>(MemoryOf<Held>(records), OwnerOf(array), released));
}

BufferSlot* BufferSlotOf(const NDArray& array) {
  internal::Storage& storage = *array.storage();
  const bool whole = BytesOf(array) == storage.size() && storage.layout == ImageLayout::kRowMajor;
  const bool adopts =
      whole && !storage.stays && array.context().kind == DeviceKind::kCpu && IsFloating(array.dtype());
  return adopts ? &storage : nullptr;
}

void LetAdopt(NDArray& array) {
  array.storage()->adopts = true;
}

bool Adopts(const NDArray& array) {
  return array.storage()->adopts;
}

void SetOrigin(const NDArray& array, const std::shared_ptr<const void>& origin) {
  internal::Storage& storage = *array.storage();
  if (BytesOf(array) == storage.size()) storage.SetOrigin(origin);
}

std::shared_ptr<const void> OriginOf(const NDArray& array) {
  return array.storage()->origin();
}

Event EnqueueCopyToGpu(PlacedFrames frames, const NDArray& out) {
  const DeviceStream on = out.storage()->device->delivered();
  return on.stream.Enqueue(
      "copy to a GPU", {},
      [frames = std::move(frames), out, to = internal::DataOf<std::byte>(out), kernels = &on.kernels,
       pinned = Devices::Default()->pinned_memory()] {
        for (const auto& [offset, frame] : frames) {
          pinned->WillRead(frame.bytes());
          kernels->Copy({.from = frame.data(), .to = to + offset, .bytes = frame.size()});
        }
      });
}

Event EnqueueCopyToHost(const NDArray& array, const NDArray& out, ByteRange range) {
  return internal::LaunchOn(
      array.storage()->device->to_host(), "copy to the host", {array}, {out},
      [from = internal::DataOf<std::byte>(array), to = internal::DataOf<std::byte>(out), range](Kernels& k) {
        k.Copy({.from = from + range.offset, .to = to + range.offset, .bytes = range.bytes});
      });
}

Event EnqueueScatterToGpu(const NDArray& block, const NDArray& between,
                          std::function<std::vector<BlockPart>()> parts) {
  const DeviceStream on = between.storage()->device->delivered();
  return on.stream.Enqueue(
      "copy to a GPU", {},
      [block, between, from = internal::DataOf<std::byte>(block), to = internal::DataOf<std::byte>(between),
       parts = std::move(parts), kernels = &on.kernels] {
        std::vector<CopyArgs> to_card, on_card;
        for (const BlockPart& part : parts()) {
          const auto elements = static_cast<size_t>(part.array.offset()) * SizeOf(part.array.dtype());
          const internal::Data<std::byte> target(*part.array.storage(), elements);
          const size_t bytes = BytesOf(part.array);
          on_card.push_back({.from = to + part.offset, .to = target, .bytes = bytes});
          // Parts that lie behind each other are one copy.
          if (!to_card.empty() &&
              from + part.offset == static_cast<const std::byte*>(to_card.back().from) + to_card.back().bytes)
            to_card.back().bytes += bytes;
          else
            to_card.push_back({.from = from + part.offset, .to = to + part.offset, .bytes = bytes});
        }
        for (const CopyArgs& copy : to_card) kernels->Copy(copy);
        kernels->CopyAll({.copies = on_card});
      });
}

NDArray GatherBytes(std::span<const NDArray> arrays) {
  std::vector<internal::Data<std::byte>> data;
  std::vector<size_t> sizes;
  int64_t bytes = 0;
  internal::ArrayRefs inputs;
  for (const NDArray& array : arrays) {
    data.push_back(internal::DataOf<std::byte>(array));
    sizes.push_back(BytesOf(array));
    bytes += static_cast<int64_t>(sizes.back());
    inputs.Add(array);
  }
  NDArray block = NDArray::Empty({bytes}, arrays.front().context(), DType::kUInt8);
  internal::LaunchOn(block.storage()->device->to_host(), "gather of arrays", inputs, {block},
                     [data = std::move(data), sizes = std::move(sizes),
                      to = internal::DataOf<std::byte>(block)](Kernels& k) {
                       std::vector<CopyArgs> copies;
                       std::byte* next = to;
                       for (size_t i = 0; i < data.size(); next += sizes[i++])
                         copies.push_back({.from = data[i], .to = next, .bytes = sizes[i]});
                       k.CopyAll({.copies = copies});
                     });
  return block;
}

Event EnqueueOn(Context context, Label what, std::span<const Event> after, Stream::Work work) {
  return Devices::Default()->Get(context)->stream().Enqueue(std::move(what), after, std::move(work));
}

}  // namespace sluice
