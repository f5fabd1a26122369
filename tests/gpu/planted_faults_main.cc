// Runs correct work on a test machine and then, after "before NAME" is printed, the same work with a fault:
// TSan or ASan must find it behind that line (CMakeLists.txt says which). Exit code 0 where nothing is found.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <string>

#include "gpu/planted_faults.h"
#include "gpu/runtime/machine.h"
#include "tensor/cuda/error.h"

namespace sluice::emulation {
namespace {

// A race goes unseen where a lock that both threads take orders them by chance.
constexpr int kTimes = 200;

void Do(cudaError_t error) {
  cuda::Require(error, "a call of the runtime");
}

void Expect(bool right) {
  if (!right) std::fprintf(stderr, "a value is wrong\n");
}

// Two streams and memory of the card with kValues floats, which are 1, 2, 3...
class Work {
 public:
  Work() {
    for (cudaStream_t& stream : streams) Do(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    Do(cudaMalloc(reinterpret_cast<void**>(&values), sizeof(host)));
    for (int i = 0; i < kValues; ++i) host[i] = static_cast<float>(i + 1);
    Do(cudaMemcpy(values, host, sizeof(host), cudaMemcpyDefault));
  }
  ~Work() {
    for (cudaStream_t stream : streams) cudaStreamDestroy(stream);
    cudaFree(values);
  }
  void Wait() {
    for (cudaStream_t stream : streams) Do(cudaStreamSynchronize(stream));
  }

  cudaStream_t streams[2] = {};
  float* values = nullptr;
  float host[kValues] = {};
};

// A barrier between what the threads of a block write and read.
void Barrier(Work& work, bool right) {
  Rotate(work.streams[0], work.values, right);
  work.Wait();
}

// The second stream waits for the first one's kernel.
void StreamOrder(Work& work, bool right) {
  cudaEvent_t event = nullptr;
  Do(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  Increment(work.streams[0], work.values);
  Do(cudaEventRecord(event, work.streams[0]));
  if (right) Do(cudaStreamWaitEvent(work.streams[1], event, 0));
  Increment(work.streams[1], work.values);
  work.Wait();
  Do(cudaEventDestroy(event));
}

// The host reads what a copy has brought to pinned memory after the copy's end.
void HostOrder(Work& work, bool right) {
  float* pinned = nullptr;
  Do(cudaHostAlloc(reinterpret_cast<void**>(&pinned), sizeof(work.host), cudaHostAllocPortable));
  Do(cudaMemcpyAsync(pinned, work.values, sizeof(work.host), cudaMemcpyDefault, work.streams[0]));
  if (right) work.Wait();
  Expect(pinned[0] >= 1);
  work.Wait();
  Do(cudaFreeHost(pinned));
}

// The host reads a card's memory only through a copy.
void HostRead(Work& work, bool right) {
  if (right) Do(cudaMemcpy(work.host, work.values, sizeof(work.host), cudaMemcpyDefault));
  Expect((right ? work.host[0] : *work.values) >= 1);
}

void HostCopy(Work& work, bool right) {
  if (right) Do(cudaMemcpy(work.host, work.values, sizeof(work.host), cudaMemcpyDefault));
  if (!right) std::copy(work.values, work.values + kValues, work.host);
  Expect(work.host[0] >= 1);
}

int Main(const std::string& name) {
  const std::map<std::string, std::function<void(Work&, bool)>> all = {{"barrier", Barrier},
                                                                       {"stream_order", StreamOrder},
                                                                       {"host_order", HostOrder},
                                                                       {"host_read", HostRead},
                                                                       {"host_copy", HostCopy}};
  const auto found = all.find(name);
  if (found == all.end()) {
    std::fprintf(stderr,
                 "planted_faults: name one of barrier, stream_order, host_order, host_read, host_copy\n");
    return 2;
  }
  Machine machine;
  Work work;
  found->second(work, true);
  std::fprintf(stderr, "before %s\n", name.c_str());
  for (int i = 0; i < kTimes; ++i) found->second(work, false);
  return 0;
}

}  // namespace
}  // namespace sluice::emulation

int main(int argc, char** argv) {
  return sluice::emulation::Main(argc == 2 ? argv[1] : "");
}
