// Replaces malloc, calloc, realloc and the aligned variants for the whole process, and counts their calls.
//
// The replacements forward to glibc's __libc_* functions, so the memory is glibc's and free()
// needs no replacement. The counting code itself must not allocate: it uses fixed tables, and a
// thread-local flag keeps calls of the stack walk from being counted. The caller of an allocation
// is the first stack frame outside the C and C++ libraries. Any thread may allocate; one mutex
// guards the tables. train_bench switches it on.
#include "allocations.h"

#include <dlfcn.h>
#include <execinfo.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <string_view>

#include "base/mutex.h"
#include "base/strings.h"

extern "C" {
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* old, size_t size);
void* __libc_memalign(size_t alignment, size_t size);
}

namespace sluice::bench {
namespace {

constexpr int kFrames = 24;  // frames that a walk visits
constexpr int kKept = 8;     // frames that a site keeps
constexpr size_t kSites = 4096;

struct Site {
  AllocatedBy who = AllocatedBy::kOthers;
  AllocationCount count;
  std::array<void*, kKept> frames{};
};

std::atomic<bool> counting = false;
thread_local bool walking = false;  // true during a walk, whose own allocations are not counted
Mutex mutex;
// The tables have a fixed size because counting must not allocate.
std::array<AllocationCount, std::size(kAllocators)> totals SLUICE_GUARDED_BY(mutex);
std::array<Site, kSites> sites SLUICE_GUARDED_BY(mutex);

enum class Module : uint8_t { kProgram, kOneDnn, kLibc, kOther };

std::string_view FileName(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

// Returns whether the frame is in an instantiation of a std template. If several modules contain the same
// one, the loader binds all calls to the first copy, so the frame's module does not tell which module called.
bool IsOfStd(const Dl_info& info) {
  if (info.dli_sname == nullptr) return false;
  const std::string_view name = info.dli_sname;
  return name.starts_with("_ZNSt") || name.starts_with("_ZNKSt") || name.starts_with("_ZSt") ||
         name.starts_with("_ZN9__gnu_cxx");
}

Module ModuleOf(void* frame) {
  Dl_info info{}, own{};
  if (dladdr(static_cast<char*>(frame) - 1, &info) == 0) return Module::kOther;
  if (IsOfStd(info)) return Module::kLibc;
  dladdr(reinterpret_cast<void*>(&ModuleOf), &own);
  if (info.dli_fbase == own.dli_fbase) return Module::kProgram;
  const std::string_view file = FileName(info.dli_fname);
  if (file.starts_with("libdnnl")) return Module::kOneDnn;
  for (const std::string_view libc : {"libc.so", "libstdc++", "libgcc_s", "ld-linux", "libm.so"}) {
    if (file.starts_with(libc)) return Module::kLibc;
  }
  return Module::kOther;
}

AllocatedBy WhoOf(Module module, bool aligned) {
  // In this program only HeapAllocator (base/buffer.cc) asks for aligned memory.
  if (module == Module::kProgram) return aligned ? AllocatedBy::kArrays : AllocatedBy::kSluice;
  return module == Module::kOneDnn ? AllocatedBy::kOneDnn : AllocatedBy::kOthers;
}

// Returns the index of the first frame outside the C and C++ libraries, and sets `module` to its module.
// Returns `count`, with Module::kOther, if there is none.
int FirstCaller(void* const* frames, int count, Module* module) {
  for (int i = 0; i < count; ++i) {
    *module = ModuleOf(frames[i]);
    if (*module != Module::kLibc) return i;
  }
  *module = Module::kOther;
  return count;
}

void Add(AllocationCount* count, size_t size) {
  ++count->calls;
  count->bytes += size;
}

Site* SiteOf(const std::array<void*, kKept>& frames) SLUICE_REQUIRES(mutex) {
  size_t hash = 0;
  for (void* frame : frames) hash = hash * 0x9E3779B97F4A7C15u + reinterpret_cast<size_t>(frame);
  for (size_t probe = 0; probe < kSites; ++probe) {
    Site& site = sites[(hash + probe) % kSites];
    if (site.count.calls == 0 || site.frames == frames) return &site;
  }
  return nullptr;
}

[[gnu::noinline]] void Count(size_t size, bool aligned) {
  if (walking) return;
  walking = true;
  void* walk[kFrames];
  constexpr int kOwn = 2;  // the frames of Count and of the replacement that called it
  const int depth = backtrace(walk, kFrames);
  Module module = Module::kOther;
  const int count = std::max(0, depth - kOwn);
  const int first = FirstCaller(walk + kOwn, count, &module);
  std::array<void*, kKept> frames{};
  for (int i = first; i < std::min(count, first + kKept); ++i)
    frames[static_cast<size_t>(i - first)] = walk[kOwn + i];
  const AllocatedBy who = WhoOf(module, aligned);
  {
    const MutexLock lock(mutex);
    Add(&totals[static_cast<size_t>(who)], size);
    if (Site* site = SiteOf(frames)) {
      site->who = who;
      site->frames = frames;
      Add(&site->count, size);
    }
  }
  walking = false;
}

// Always inlined: Count skips exactly two frames, so this function must not add a third.
[[gnu::always_inline]] inline void CountIfAsked(size_t size, bool aligned = false) {
  if (counting.load(std::memory_order_relaxed)) [[unlikely]]
    Count(size, aligned);
}

std::string Describe(void* frame) {
  Dl_info info{};
  char* call = static_cast<char*>(frame) - 1;
  if (dladdr(call, &info) == 0) return "?";
  char offset[32];
  std::snprintf(offset, sizeof offset, "+0x%zx",
                static_cast<size_t>(call - static_cast<char*>(info.dli_fbase)));
  return StrCat(FileName(info.dli_fname), offset);
}

}  // namespace

bool CanCountAllocations() {
  return true;
}

void StartCountingAllocations() {
  void* frame = nullptr;
  backtrace(&frame, 1);  // the first call loads the unwinder, which allocates
  const MutexLock lock(mutex);
  totals.fill({});
  sites.fill({});
  counting = true;
}

void StopCountingAllocations() {
  counting = false;
}

AllocationCount CountOf(AllocatedBy who) {
  const MutexLock lock(mutex);
  return totals[static_cast<size_t>(who)];
}

std::vector<AllocationSite> AllocationSites() {
  std::vector<AllocationSite> found;
  const MutexLock lock(mutex);
  for (const Site& site : sites) {
    if (site.count.calls == 0) continue;
    AllocationSite& one = found.emplace_back(AllocationSite{site.who, site.count, {}});
    for (void* frame : site.frames) {
      if (frame != nullptr) one.frames.push_back(Describe(frame));
    }
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.count.calls > b.count.calls; });
  return found;
}

}  // namespace sluice::bench

// All memory still comes from glibc's heap, so free() needs no replacement.
extern "C" {

void* malloc(size_t size) {
  sluice::bench::CountIfAsked(size);
  return __libc_malloc(size);
}

void* calloc(size_t count, size_t size) {
  sluice::bench::CountIfAsked(count * size);
  return __libc_calloc(count, size);
}

void* realloc(void* old, size_t size) {
  sluice::bench::CountIfAsked(size);
  return __libc_realloc(old, size);
}

void* memalign(size_t alignment, size_t size) {
  sluice::bench::CountIfAsked(size, true);
  return __libc_memalign(alignment, size);
}

void* aligned_alloc(size_t alignment, size_t size) {
  sluice::bench::CountIfAsked(size, true);
  return __libc_memalign(alignment, size);
}

int posix_memalign(void** data, size_t alignment, size_t size) {
  sluice::bench::CountIfAsked(size, true);
  void* block = __libc_memalign(alignment, size);
  if (block == nullptr) return ENOMEM;
  *data = block;
  return 0;
}

}  // extern "C"
