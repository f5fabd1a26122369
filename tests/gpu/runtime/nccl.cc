// A collective operation is work of one stream for each rank. The work meets in the clique, where the last
// one computes for all: so no rank goes on before every result is written. Reductions add up in the order of
// the ranks, 16-bit floats in float32. Compiled without ASan's checks, since it touches memory of cards.
#include "gpu/runtime/nccl.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <atomic>
#include <cstring>
#include <functional>

#include "base/check.h"
#include "gpu/runtime/memory.h"
#include "gpu/runtime/stream.h"

namespace sluice::emulation {
namespace {

size_t WidthOf(ncclDataType_t type) {
  switch (type) {
    case ncclUint8:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt64:
    case ncclFloat64:
      return 8;
    default:
      return 4;
  }
}

template <typename T, typename Sum, typename Widen, typename Narrow>
void Add(const std::vector<CollectivePart>& parts, void* out, Widen&& widen, Narrow&& narrow) {
  for (size_t i = 0; i < parts.front().count; ++i) {
    Sum sum = widen(static_cast<const T*>(parts.front().send)[i]);
    for (size_t rank = 1; rank < parts.size(); ++rank)
      sum = static_cast<Sum>(sum + widen(static_cast<const T*>(parts[rank].send)[i]));
    static_cast<T*>(out)[i] = narrow(sum);
  }
}
template <typename T>
void AddAs(const std::vector<CollectivePart>& parts, void* out) {
  Add<T, T>(parts, out, std::identity(), std::identity());
}

void AddUp(const std::vector<CollectivePart>& parts, void* out) {
  switch (parts.front().type) {
    case ncclFloat64:
      return AddAs<double>(parts, out);
    case ncclFloat16:
      return Add<__half, float>(
          parts, out, [](__half value) { return __half2float(value); },
          [](float sum) { return __float2half_rn(sum); });
    case ncclBfloat16:
      return Add<__nv_bfloat16, float>(
          parts, out, [](__nv_bfloat16 value) { return __bfloat162float(value); },
          [](float sum) { return __float2bfloat16_rn(sum); });
    case ncclInt32:
      return AddAs<uint32_t>(parts, out);
    case ncclInt64:
      return AddAs<uint64_t>(parts, out);
    case ncclUint8:
      return AddAs<uint8_t>(parts, out);
    default:
      return AddAs<float>(parts, out);
  }
}

std::atomic<Nccl*> current = nullptr;

bool SameOperation(const std::vector<CollectivePart>& parts) {
  for (const CollectivePart& part : parts) {
    const CollectivePart& first = parts.front();
    if (part.kind != first.kind || part.count != first.count || part.type != first.type ||
        part.root != first.root)
      return false;
  }
  return true;
}

void Compute(const std::vector<CollectivePart>& parts) {
  const CollectivePart& first = parts.front();
  const size_t bytes = first.count * WidthOf(first.type);
  const CollectivePart& root = parts[static_cast<size_t>(first.root)];
  if (first.kind == CollectivePart::Kind::kReduce) return AddUp(parts, root.receive);
  if (first.kind == CollectivePart::Kind::kAllReduce) AddUp(parts, first.receive);
  const void* const from = first.kind == CollectivePart::Kind::kAllReduce ? first.receive : root.send;
  for (const CollectivePart& part : parts)
    if (part.receive != from) Memory::Move(part.receive, from, bytes);
}

}  // namespace

void Clique::Join(int rank, int card) {
  state_.Notify([&](State& state) {
    for (const int other : state.cards)
      if (other == card) state.error = ncclInvalidUsage;
    state.cards.at(static_cast<size_t>(rank)) = card;
  });
}

ncclResult_t Clique::Result() const {
  return state_.With([](const State& state) {
    if (state.error != ncclSuccess) return state.error;
    for (const int card : state.cards)
      if (card < 0) return ncclInProgress;
    return ncclSuccess;
  });
}

void Clique::Fail(ncclResult_t error) {
  state_.Notify([&](State& state) { state.error = error; });
}

void Clique::Finish(State& state, Operation& operation) {
  if (!SameOperation(operation.parts)) {
    state.error = ncclInvalidArgument;
    return;
  }
  if (operation.parts.front().count > 0) Compute(operation.parts);
  operation.done = true;
}

void Clique::Run(int rank, uint64_t number, const CollectivePart& part, bool stuck) {
  if (!stuck) {
    state_.Notify([&](State& state) {
      if (state.error != ncclSuccess) return;
      Operation& operation = state.operations[number];
      operation.parts.resize(state.cards.size());
      operation.parts[static_cast<size_t>(rank)] = part;
      if (++operation.arrived == static_cast<int>(state.cards.size())) Finish(state, operation);
    });
  }
  state_.Await(
      60s,
      [&](const State& state) {
        const auto operation = state.operations.find(number);
        return state.error != ncclSuccess || state.aborted.contains(rank) ||
               (operation != state.operations.end() && operation->second.done);
      },
      [&](const State&, bool in_time) {
        SLUICE_CHECK(in_time) << "rank " << rank << " waited for 60 s for operation " << number
                              << " of the other ranks, and nobody aborted it";
      });
}

void Clique::Abort(int rank) {
  state_.Notify([&](State& state) { state.aborted.insert(rank); });
}

Nccl::Nccl() {
  Nccl* none = nullptr;
  SLUICE_CHECK(current.compare_exchange_strong(none, this)) << "there is another Nccl";
}

Nccl::~Nccl() {
  current = nullptr;
}

Nccl* Nccl::Current() {
  return current;
}

std::shared_ptr<Clique> Nccl::CliqueOf(uint64_t id, int ranks) {
  return state_.With([&](State& state) {
    std::shared_ptr<Clique>& clique = state.cliques[id];
    if (clique == nullptr) clique = std::make_shared<Clique>(ranks);
    return clique;
  });
}

ncclResult_t Nccl::NextOperation() {
  return state_.With([](State& state) {
    ++state.launched;
    return state.failing-- == 0 ? state.error : ncclSuccess;
  });
}

}  // namespace sluice::emulation

using sluice::emulation::Clique;
using sluice::emulation::CollectivePart;
using sluice::emulation::Nccl;

// A communicator. The name is NCCL's.
struct ncclComm {
  std::shared_ptr<Clique> clique;
  int rank = 0, card = 0;
  uint64_t operations = 0;
  bool issuing = false;  // says once that its last group is in progress
};

namespace {

thread_local int groups = 0;
thread_local std::vector<std::function<void()>> grouped;
thread_local bool group_is_collective = false;

ncclResult_t Enqueue(ncclComm_t comm, cudaStream_t stream, const CollectivePart& part) {
  Nccl* const nccl = Nccl::Current();
  if (nccl == nullptr || comm == nullptr || stream == nullptr || stream->card() != comm->card)
    return ncclInvalidArgument;
  if (comm->clique->Result() == ncclInProgress) return ncclInvalidUsage;
  const auto issue = [=] {
    if (const ncclResult_t error = nccl->NextOperation(); error != ncclSuccess) comm->clique->Fail(error);
    stream->Enqueue([clique = comm->clique, rank = comm->rank, number = comm->operations++, part,
                     stuck = nccl->Stuck(comm->rank)] { clique->Run(rank, number, part, stuck); });
    comm->issuing = true;
  };
  if (groups == 0) return issue(), ncclInProgress;
  grouped.push_back(issue);
  group_is_collective = true;
  return ncclSuccess;
}

}  // namespace

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  if (Nccl::Current() == nullptr) return ncclSystemError;
  *id = {};
  const uint64_t number = Nccl::Current()->NewId();
  std::memcpy(id->internal, &number, sizeof(number));
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  Nccl* const nccl = Nccl::Current();
  if (nccl == nullptr) return ncclSystemError;
  if (rank < 0 || rank >= ranks || config == nullptr || config->blocking != 0) return ncclInvalidArgument;
  uint64_t number = 0;
  std::memcpy(&number, id.internal, sizeof(number));
  int card = 0;
  cudaGetDevice(&card);
  *comm = new ncclComm{.clique = nccl->CliqueOf(number, ranks), .rank = rank, .card = card};
  nccl->CountCommunicators(1);
  if (!nccl->Stuck(rank)) (*comm)->clique->Join(rank, card);
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  *error = comm->clique->Result();
  if (*error == ncclSuccess && std::exchange(comm->issuing, false)) *error = ncclInProgress;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  comm->clique->Abort(comm->rank);
  Nccl::Current()->CountCommunicators(-1);
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t) {
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  Nccl::Current()->CountCommunicators(-1);
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclReduce(const void* send, void* receive, size_t count, ncclDataType_t type,
                        ncclRedOp_t operation, int root, ncclComm_t comm, cudaStream_t stream) {
  if (operation != ncclSum) return ncclInvalidArgument;
  return Enqueue(comm, stream, {CollectivePart::Kind::kReduce, send, receive, count, type, root});
}

ncclResult_t ncclBroadcast(const void* send, void* receive, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  return Enqueue(comm, stream, {CollectivePart::Kind::kBroadcast, send, receive, count, type, root});
}

ncclResult_t ncclAllReduce(const void* send, void* receive, size_t count, ncclDataType_t type,
                           ncclRedOp_t operation, ncclComm_t comm, cudaStream_t stream) {
  if (operation != ncclSum) return ncclInvalidArgument;
  return Enqueue(comm, stream, {CollectivePart::Kind::kAllReduce, send, receive, count, type, 0});
}

ncclResult_t ncclGroupStart() {
  ++groups;
  return ncclSuccess;
}

// Nothing of a group is issued before its end.
ncclResult_t ncclGroupEnd() {
  if (groups == 0) return ncclInvalidUsage;
  if (--groups > 0) return ncclSuccess;
  for (const auto& issue : std::exchange(grouped, {})) issue();
  if (!std::exchange(group_is_collective, false)) return ncclSuccess;
  if (Nccl* const nccl = Nccl::Current(); nccl != nullptr) nccl->CountGroup();
  return ncclInProgress;
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
    default:
      return "an error of NCCL";
  }
}

const char* ncclGetLastError(ncclComm_t) {
  return "";
}

}  // extern "C"
