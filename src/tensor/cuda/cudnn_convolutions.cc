// Convolutions by plans of cuDNN's graph API. The plan of a problem is the one that cuDNN expects to be the
// fastest. CudaKernels calls it; a test machine has loops in its place (tests/gpu/runtime/).
#include <array>
#include <map>
#include <utility>

#include "base/strings.h"
#include "sluice/error.h"
#include "tensor/cuda/convolutions.h"
#include "tensor/cuda/cudnn_graph.h"

namespace sluice::cuda {
namespace {

constexpr int64_t kMostWorkspace = int64_t{256} << 20;  // docs/design/gpu.md, "Convolutions"
constexpr size_t kMostPlans = 512;

std::string Text(const ConvolutionProblem& problem) {
  const ConvShape& s = problem.shape;
  constexpr const char* kPasses[] = {"a convolution", "the gradient of a convolution's input",
                                     "the gradient of a convolution's weight"};
  return StrCat(kPasses[static_cast<size_t>(problem.pass)], ": ", s.batch, " images of ", s.in_channels,
                " x ", s.in_height, " x ", s.in_width, " to ", s.out_channels, " channels, windows of ",
                s.window.height, " x ", s.window.width, ", ", s.groups, " groups");
}

}  // namespace

class Convolutions::State {
 public:
  State(cudaStream_t stream, Workspace& workspace)
      : workspace_(workspace),
        library_(LoadCudnn()),
        handle_(*library_, stream),
        card_(CardOf(*library_, handle_.get())) {}

  void Run(const ConvolutionProblem& problem, const ConvolutionArrays& arrays) {
    const ConvolutionPlan& plan = PlanOf(problem);
    constexpr std::array<int64_t, 3> kNumbers = {static_cast<int64_t>(ConvolutionTensor::kX),
                                                 static_cast<int64_t>(ConvolutionTensor::kWeight),
                                                 static_cast<int64_t>(ConvolutionTensor::kOut)};
    const std::array<const void*, 3> pointers = {arrays.x, arrays.weight, arrays.out};
    const void* const memory = workspace_.Take<std::byte>(static_cast<size_t>(plan.workspace));
    CudnnDescriptor pack(*library_, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    pack.Set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, kNumbers);
    pack.Set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 3, pointers.data());
    pack.Set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &memory);
    pack.Finalize();
    Require(*library_, library_->Execute(handle_.get(), plan.plan.get(), pack.get()), "cudnnBackendExecute");
  }

 private:
  class Handle {
   public:
    Handle(const Cudnn& library, cudaStream_t stream) : library_(library) {
      Require(library, library.Create(&handle_), "cudnnCreate");
      try {
        Require(library, library.SetStream(handle_, stream), "cudnnSetStream");
      } catch (...) {
        static_cast<void>(library.Destroy(handle_));
        throw;
      }
    }
    ~Handle() { static_cast<void>(library_.Destroy(handle_)); }
    Handle(const Handle&) = delete;
    Handle& operator=(const Handle&) = delete;
    cudnnHandle_t get() const { return handle_; }

   private:
    const Cudnn& library_;
    cudnnHandle_t handle_ = nullptr;
  };

  const ConvolutionPlan& PlanOf(const ConvolutionProblem& problem) {
    if (const auto made = plans_.find(problem); made != plans_.end()) return made->second;
    std::vector<ConvolutionPlan> plans = FindPlans(card_, problem, kMostWorkspace, 1);
    if (plans.empty())
      throw Error(ErrorCode::kUnimplemented, StrCat("cuDNN has no plan for ", Text(problem)));
    if (plans_.size() >= kMostPlans) plans_.clear();
    return plans_.emplace(problem, std::move(plans.front())).first->second;
  }

  Workspace& workspace_;
  const std::shared_ptr<const Cudnn> library_;
  const Handle handle_;
  const CudnnDescriptor card_;
  std::map<ConvolutionProblem, ConvolutionPlan> plans_;
};

Convolutions::Convolutions(cudaStream_t stream, Workspace& workspace)
    : state_(std::make_unique<State>(stream, workspace)) {}

Convolutions::~Convolutions() = default;

void Convolutions::Run(const ConvolutionProblem& problem, const ConvolutionArrays& arrays) {
  state_->Run(problem, arrays);
}

}  // namespace sluice::cuda
