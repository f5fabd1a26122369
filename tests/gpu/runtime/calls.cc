// The functions of the CUDA runtime, on the test machine that exists. Without one they say that there is no
// card, as on a machine without a driver.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string_view>
#include <utility>

#include "gpu/runtime/launch_grid.h"
#include "gpu/runtime/machine.h"
#include "gpu/runtime/stream.h"

namespace sluice::emulation {
namespace {

thread_local int chosen_card = 0;
thread_local cudaError_t last_error = cudaSuccess;

bool IsCard(int card) {
  const Machine* const machine = Machine::Current();
  return machine != nullptr && card >= 0 && card < machine->options().cards;
}
// A machine before this one may have had more cards.
int CurrentCard() {
  return IsCard(chosen_card) ? chosen_card : 0;
}

cudaError_t Result(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

// Does a call for `card`, unless the machine makes it fail.
template <typename F>
cudaError_t CallFor(int card, F&& body) {
  Machine* const machine = Machine::Current();
  if (machine == nullptr) return Result(cudaErrorNoDevice);
  if (const cudaError_t error = machine->Begin(card); error != cudaSuccess) return Result(error);
  return Result(body(*machine));
}
// The same for a call that gives something back, which happens in any case.
template <typename F>
cudaError_t ReleaseFor(int card, F&& body) {
  Machine* const machine = Machine::Current();
  if (machine == nullptr) return Result(cudaErrorNoDevice);
  machine->Open(CurrentCard());
  const cudaError_t injected = machine->Begin(card), error = body(*machine);
  return Result(injected != cudaSuccess ? injected : error);
}
// Does a call for the thread's card, which opens it.
template <typename F>
cudaError_t Call(F&& body) {
  return CallFor(CurrentCard(), [&](Machine& machine) {
    machine.Open(CurrentCard());
    return body(machine);
  });
}
// Does a call that makes something.
template <typename F>
cudaError_t Make(F&& body) {
  return Call(
      [&](Machine& machine) { return machine.out_of_memory() ? cudaErrorMemoryAllocation : body(machine); });
}
// Asks something that needs no card.
template <typename F>
cudaError_t Ask(F&& body) {
  return CallFor(CurrentCard(), body);
}
// A null stream is the default stream.
template <typename F>
cudaError_t CallOn(cudaStream_t stream, F&& body) {
  if (stream == nullptr) return Result(cudaErrorInvalidResourceHandle);
  return CallFor(stream->card(), body);
}

cudaError_t AfterWait(const Machine& machine, int card) {
  return machine.Lost(card) ? cudaErrorIllegalAddress : cudaSuccess;
}

// Says whether the bytes lie in one block, or in pageable memory of the host.
bool Within(const Memory& memory, const void* begin, size_t size) {
  return !memory.Find(begin) || memory.Find(begin, size);
}

cudaError_t Copy(Machine& machine, void* to, const void* from, size_t size, cudaStream_t stream) {
  if (size == 0) return cudaSuccess;
  if (!Within(machine.memory(), to, size) || !Within(machine.memory(), from, size))
    return cudaErrorInvalidValue;
  stream->Enqueue([=] { Memory::Move(to, from, size); });
  // Pageable memory is copied before the call returns.
  if (!machine.memory().Find(to) || !machine.memory().Find(from)) stream->Record()->Await();
  return cudaSuccess;
}

struct ErrorTexts {
  cudaError_t error;
  const char *name, *meaning;
};

// Texts of the errors that the library tells apart; of others only that they are errors.
const ErrorTexts& TextsOf(cudaError_t error) {
  static constexpr ErrorTexts kAll[] = {
      {cudaSuccess, "cudaSuccess", "no error"},
      {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
      {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver",
       "CUDA driver version is insufficient for CUDA runtime version"},
      {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
      {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
      {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
      {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
      {cudaErrorIllegalAddress, "cudaErrorIllegalAddress", "an illegal memory access was encountered"},
      {cudaErrorUnknown, "an error of the CUDA runtime", "see driver_types.h"}};
  const auto* const last = std::end(kAll) - 1;
  return *std::find_if(std::begin(kAll), last, [&](const ErrorTexts& texts) { return texts.error == error; });
}

}  // namespace

cudaError_t LaunchGrid(cudaStream_t stream, unsigned blocks, unsigned threads, std::function<void()> kernel) {
  return CallOn(stream, [&](Machine&) {
    if (stream->card() != CurrentCard()) return cudaErrorInvalidResourceHandle;
    stream->EnqueueGrid(blocks, threads, std::move(kernel));
    return cudaSuccess;
  });
}

}  // namespace sluice::emulation

using namespace sluice::emulation;  // NOLINT: the functions below are CUDA's

extern "C" {

// --- Cards ---

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 0;
  return Ask([&](Machine& machine) {
    *count = machine.options().cards;
    return cudaSuccess;
  });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int card) {
  return Ask([&](Machine& machine) {
    if (!IsCard(card)) return cudaErrorInvalidDevice;
    *properties = {};
    std::strncpy(properties->name, "a card of the test machine", sizeof(properties->name) - 1);
    properties->totalGlobalMem = machine.options().memory;
    properties->major = 9;
    properties->multiProcessorCount = 1;
    properties->warpSize = 32;
    return cudaSuccess;
  });
}

cudaError_t cudaSetDevice(int card) {
  return CallFor(IsCard(card) ? card : CurrentCard(), [&](Machine& machine) {
    if (!IsCard(card)) return cudaErrorInvalidDevice;
    chosen_card = card;
    machine.Open(card);
    return cudaSuccess;
  });
}

cudaError_t cudaGetDevice(int* card) {
  *card = CurrentCard();
  return cudaSuccess;
}

// Names the two functions of the driver that the library uses.
cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult* found) {
  constexpr auto kDeviceGet = [](CUdevice* device, int card) {
    *device = card;
    return CUDA_SUCCESS;
  };
  constexpr auto kGetState = [](CUdevice device, unsigned* flags, int* active) {
    *flags = 0;
    *active = IsCard(device) && Machine::Current()->IsOpen(device) ? 1 : 0;
    return CUDA_SUCCESS;
  };
  *function = nullptr;
  if (std::string_view(name) == "cuDeviceGet")
    *function = reinterpret_cast<void*>(static_cast<CUresult (*)(CUdevice*, int)>(kDeviceGet));
  if (std::string_view(name) == "cuDevicePrimaryCtxGetState")
    *function = reinterpret_cast<void*>(static_cast<CUresult (*)(CUdevice, unsigned*, int*)>(kGetState));
  *found = *function == nullptr ? cudaDriverEntryPointSymbolNotFound : cudaDriverEntryPointSuccess;
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = Machine::Current() != nullptr ? Machine::Current()->options().driver : 0;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int card, int peer) {
  return Ask([&](Machine& machine) {
    *can = machine.options().peers && card != peer ? 1 : 0;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned) {
  return Call([&](Machine& machine) {
    if (!machine.options().peers || !IsCard(peer) || peer == CurrentCard())
      return cudaErrorPeerAccessUnsupported;
    return machine.EnablePeer(CurrentCard(), peer) ? cudaSuccess : cudaErrorPeerAccessAlreadyEnabled;
  });
}

// --- Memory ---

cudaError_t cudaMalloc(void** memory, size_t size) {
  return Make([&](Machine& machine) {
    *memory = size == 0 ? nullptr : machine.memory().Allocate(CurrentCard(), size);
    return size > 0 && *memory == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
  });
}

// Waits for the card's work, as the driver does.
cudaError_t cudaFree(void* memory) {
  if (memory == nullptr) return cudaSuccess;
  Machine* const machine = Machine::Current();
  const auto block = machine == nullptr ? std::nullopt : machine->memory().Find(memory);
  if (!block || block->kind != Memory::Kind::kCard) return Result(cudaErrorInvalidValue);
  return ReleaseFor(block->card, [&](Machine&) {
    machine->Await(block->card);
    return machine->memory().Free(memory) ? cudaSuccess : cudaErrorInvalidValue;
  });
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  return Call([&](Machine& machine) {
    *free = machine.memory().FreeBytes(CurrentCard());
    *total = machine.options().memory;
    return cudaSuccess;
  });
}

cudaError_t cudaHostAlloc(void** memory, size_t size, unsigned) {
  return Make([&](Machine& machine) {
    *memory = machine.memory().AllocatePinned(size);
    return cudaSuccess;
  });
}

cudaError_t cudaFreeHost(void* memory) {
  return ReleaseFor(CurrentCard(), [&](Machine& machine) {
    for (int card = 0; card < machine.options().cards; ++card) machine.Await(card);
    return machine.memory().FreePinned(memory) ? cudaSuccess : cudaErrorInvalidValue;
  });
}

cudaError_t cudaHostRegister(void* memory, size_t size, unsigned) {
  return Make([&](Machine& machine) {
    return machine.memory().Register(memory, size) ? cudaSuccess : cudaErrorHostMemoryAlreadyRegistered;
  });
}

cudaError_t cudaHostUnregister(void* memory) {
  return ReleaseFor(CurrentCard(), [&](Machine& machine) {
    return machine.memory().Unregister(memory) ? cudaSuccess : cudaErrorHostMemoryNotRegistered;
  });
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t size, cudaMemcpyKind) {
  return Call([&](Machine& machine) {
    if (!Within(machine.memory(), to, size) || !Within(machine.memory(), from, size))
      return cudaErrorInvalidValue;
    Memory::Move(to, from, size);
    return cudaSuccess;
  });
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t size, cudaMemcpyKind, cudaStream_t stream) {
  return CallOn(stream, [&](Machine& machine) { return Copy(machine, to, from, size, stream); });
}

cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, size_t size, cudaStream_t stream) {
  return CallOn(stream, [&](Machine& machine) { return Copy(machine, to, from, size, stream); });
}

cudaError_t cudaMemsetAsync(void* memory, int value, size_t size, cudaStream_t stream) {
  return CallOn(stream, [&](Machine& machine) {
    if (!machine.memory().Find(memory, size)) return cudaErrorInvalidValue;
    stream->Enqueue([=] { Memory::Set(memory, value, size); });
    return cudaSuccess;
  });
}

// --- Streams and events ---

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  return Call([&](Machine& machine) {
    *stream = new CUstream_st(machine, CurrentCard());
    return cudaSuccess;
  });
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  if (stream == nullptr) return Result(cudaErrorInvalidResourceHandle);
  return ReleaseFor(stream->card(), [&](Machine&) {
    delete stream;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return CallOn(stream, [&](Machine& machine) {
    stream->Record()->Await();
    return AfterWait(machine, stream->card());
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  return CallOn(stream, [&](Machine&) {
    const auto mark = event->mark.With([](const auto& recorded) { return recorded; });
    if (mark != nullptr) stream->Enqueue([mark] { mark->Await(); });
    return cudaSuccess;
  });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  return Make([&](Machine& machine) {
    *event = new CUevent_st;
    (*event)->card = CurrentCard();
    machine.CountEvents(1);
    return cudaSuccess;
  });
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return ReleaseFor(event->card, [&](Machine& machine) {
    delete event;
    machine.CountEvents(-1);
    return cudaSuccess;
  });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return CallOn(stream, [&](Machine&) {
    if (stream->card() != event->card) return cudaErrorInvalidResourceHandle;
    event->mark.With([&](auto& mark) { mark = stream->Record(); });
    return cudaSuccess;
  });
}

// A question that comes too early has no number: how many there are depends on the threads' speed.
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const auto mark = event->mark.With([](const auto& recorded) { return recorded; });
  if (mark != nullptr && !mark->Reached()) return cudaErrorNotReady;
  return CallFor(event->card, [](Machine&) { return cudaSuccess; });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return CallFor(event->card, [&](Machine& machine) {
    const auto mark = event->mark.With([](const auto& recorded) { return recorded; });
    if (mark != nullptr) mark->Await();
    return AfterWait(machine, event->card);
  });
}

// --- Errors ---

cudaError_t cudaPeekAtLastError() {
  return last_error;
}

cudaError_t cudaGetLastError() {
  return std::exchange(last_error, cudaSuccess);
}

const char* cudaGetErrorName(cudaError_t error) {
  return TextsOf(error).name;
}

const char* cudaGetErrorString(cudaError_t error) {
  return TextsOf(error).meaning;
}

}  // extern "C"
