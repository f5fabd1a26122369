// One array over leased pieces: Find keeps the last few views, found again by the addresses of their pieces,
// so that a training step makes no system call once its views exist. A view takes the kernel longer than a
// copy takes, so views that are never used again are not worth it: trials_ counts them, and at 0 Join gives
// up. Invariant: a view holds the mappings of its pieces, so their addresses are not reused while it exists;
// a frame holds the view and the pieces. A worker's client has one ContiguousView for each key, and calls it
// on the thread that drives its loop.
#include "transport/shm/contiguous_view.h"

#include <sys/mman.h>

#include <algorithm>

namespace sluice::transport {
namespace {

constexpr size_t kPage = 4096;

bool IsPages(size_t n) {
  return n % kPage == 0;
}

// Whether every piece is leased, begins on a page and, except for the last one, ends with a page.
bool ArePages(std::span<const Frame> pieces) {
  return std::ranges::all_of(pieces, [&](const Frame& piece) {
    const bool last = &piece == &pieces.back();
    return piece.lease() != nullptr && piece.lease()->mapping() != nullptr && !piece.empty() &&
           IsPages(reinterpret_cast<uintptr_t>(piece.data())) && (last || IsPages(piece.size()));
  });
}

// What a frame of a view holds until it is released.
struct Joined {
  std::shared_ptr<const void> view;
  std::vector<Frame, MemoryOf<Frame>> pieces;
};

class JoinedLease final : public Lease {
 public:
  explicit JoinedLease(Joined joined) : Lease(nullptr), joined_(std::move(joined)) {}

 private:
  const Joined joined_;
};

}  // namespace

class ContiguousView::View {
 public:
  // Returns nullptr when the kernel refuses the mapping.
  static std::shared_ptr<const View> Of(std::span<const Frame> pieces) {
    size_t bytes = 0;
    for (const Frame& piece : pieces) bytes += piece.size();
    const size_t mapped = (bytes + kPage - 1) / kPage * kPage;
    void* range = mmap(nullptr, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED) return nullptr;
    std::shared_ptr<View> view(new View({static_cast<std::byte*>(range), bytes}, mapped));
    auto* to = static_cast<std::byte*>(range);
    for (const Frame& piece : pieces) {
      const size_t length = (piece.size() + kPage - 1) / kPage * kPage;
      auto* from = const_cast<std::byte*>(piece.data());
      if (mremap(from, 0, length, MREMAP_MAYMOVE | MREMAP_FIXED, to) == MAP_FAILED) return nullptr;
      view->places_.push_back({piece.data(), piece.size(), piece.lease()->mapping()});
      to += length;
    }
    // The pages exist already; this fills the page table for them, where the kernel can (since Linux 5.14).
    madvise(range, mapped, MADV_POPULATE_READ);
    return view;
  }
  ~View() { munmap(const_cast<std::byte*>(bytes_.data()), mapped_); }
  View(const View&) = delete;
  View& operator=(const View&) = delete;

  Bytes bytes() const { return bytes_; }
  bool IsOf(std::span<const Frame> pieces) const {
    return std::ranges::equal(places_, pieces, [](const Place& place, const Frame& piece) {
      return place.data == piece.data() && place.size == piece.size() && piece.lease() != nullptr &&
             place.mapping == piece.lease()->mapping();
    });
  }

 private:
  // `mapping` keeps the address from being reused.
  struct Place {
    const std::byte* data;
    size_t size;
    std::shared_ptr<const void> mapping;
  };
  View(Bytes bytes, size_t mapped) : bytes_(bytes), mapped_(mapped) {}
  const Bytes bytes_;
  const size_t mapped_;
  std::vector<Place> places_;
};

std::shared_ptr<const ContiguousView::View> ContiguousView::Find(std::span<const Frame> pieces) {
  const auto known = std::ranges::find_if(views_, [&](const auto& view) { return view->IsOf(pieces); });
  if (known != views_.end()) {
    trials_ = kTrials;
    std::rotate(views_.begin(), known, known + 1);
    return views_.front();
  }
  if (trials_ == 0 || !ArePages(pieces)) return nullptr;
  --trials_;
  std::shared_ptr<const View> view = View::Of(pieces);
  if (view == nullptr || trials_ == 0) {
    trials_ = 0;
    views_.clear();
    return view;
  }
  if (views_.size() == kViews) views_.pop_back();
  views_.insert(views_.begin(), view);
  return view;
}

std::optional<Frame> ContiguousView::Join(std::span<const Frame> pieces) {
  if (pieces.size() == 1) return pieces.front();
  std::shared_ptr<const View> view = Find(pieces);
  if (view == nullptr) return std::nullopt;
  const Bytes bytes = view->bytes();
  Joined joined{std::move(view), {pieces.begin(), pieces.end(), MemoryOf<Frame>(records_)}};
  return Frame::Leased(bytes,
                       std::allocate_shared<JoinedLease>(MemoryOf<JoinedLease>(records_), std::move(joined)));
}

}  // namespace sluice::transport
