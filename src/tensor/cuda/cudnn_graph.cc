// Descriptors of cuDNN's graph API: tensors and a convolution become an operation, an operation becomes a
// graph, cuDNN's heuristics name engines for the graph, and an engine becomes a plan. All are plain data of
// the library on the host; nothing here touches a card. A CudnnDescriptor owns one of the library's.
// Invariant: a plan's engine gives the same bits in every run, in the arithmetic that was asked for.
// cudnn_convolutions.cc calls it in work on the stream, for a problem that has no plan yet;
// tests/gpu/plans_test.cc calls it, too.
#include "tensor/cuda/cudnn_graph.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include "base/strings.h"

namespace sluice::cuda {

CudnnDescriptor::CudnnDescriptor(const Cudnn& library, cudnnBackendDescriptorType_t type)
    : library_(&library) {
  Require(library, library.CreateDescriptor(type, &descriptor_), "cudnnBackendCreateDescriptor");
}

CudnnDescriptor::~CudnnDescriptor() {
  if (descriptor_ != nullptr) static_cast<void>(library_->DestroyDescriptor(descriptor_));
}

CudnnDescriptor::CudnnDescriptor(CudnnDescriptor&& other) noexcept
    : library_(other.library_), descriptor_(std::exchange(other.descriptor_, nullptr)) {}

CudnnDescriptor& CudnnDescriptor::operator=(CudnnDescriptor&& other) noexcept {
  std::swap(library_, other.library_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

void CudnnDescriptor::Set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
                          const void* values) {
  Require(*library_, library_->SetAttribute(descriptor_, name, type, count, values),
          StrCat("cudnnBackendSetAttribute of attribute ", static_cast<int>(name)));
}

void CudnnDescriptor::Set(cudnnBackendAttributeName_t name, std::span<const int64_t> values) {
  Set(name, CUDNN_TYPE_INT64, static_cast<int64_t>(values.size()), values.data());
}

void CudnnDescriptor::Set(cudnnBackendAttributeName_t name, const CudnnDescriptor& value) {
  Set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value.descriptor_);
}

void CudnnDescriptor::Set(cudnnBackendAttributeName_t name, cudnnDataType_t value) {
  Set(name, CUDNN_TYPE_DATA_TYPE, 1, &value);
}

std::vector<int64_t> CudnnDescriptor::Get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                                          size_t width, int64_t most) const {
  std::vector<std::byte> bytes(static_cast<size_t>(most) * width);
  int64_t count = 0;
  Require(*library_, library_->GetAttribute(descriptor_, name, type, most, &count, bytes.data()),
          StrCat("cudnnBackendGetAttribute of attribute ", static_cast<int>(name)));
  std::vector<int64_t> values(static_cast<size_t>(std::min(count, most)));
  for (size_t i = 0; i < values.size(); ++i) std::memcpy(&values[i], bytes.data() + i * width, width);
  return values;
}

void CudnnDescriptor::Finalize() {
  Require(*library_, library_->Finalize(descriptor_), "cudnnBackendFinalize");
}

bool CudnnDescriptor::TryFinalize() {
  const cudnnStatus_t status = library_->Finalize(descriptor_);
  if (status != CUDNN_STATUS_SUCCESS && CUDNN_STATUS_CATEGORY(status) != CUDNN_STATUS_NOT_SUPPORTED)
    Require(*library_, status, "cudnnBackendFinalize");
  return status == CUDNN_STATUS_SUCCESS;
}

CudnnDescriptor CardFromJson(const Cudnn& library, const std::string& json) {
  CudnnDescriptor card(library, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  card.Set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, static_cast<int64_t>(json.size()),
           json.data());
  card.Finalize();
  return card;
}

CudnnDescriptor CardOf(const Cudnn& library, cudnnHandle_t handle) {
  CudnnDescriptor card(library, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  card.Set(CUDNN_ATTR_DEVICEPROP_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
  card.Finalize();
  return card;
}

std::string JsonOf(const CudnnDescriptor& card) {
  const auto get = [&](int64_t most, char* text) {
    int64_t size = 0;
    Require(card.library(),
            card.library().GetAttribute(card.get(), CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
                                        CUDNN_TYPE_CHAR, most, &size, text),
            "cudnnBackendGetAttribute of a card's description");
    return size;
  };
  std::string text(static_cast<size_t>(get(0, nullptr)), '\0');
  get(static_cast<int64_t>(text.size()), text.data());
  return text.substr(0, text.find('\0'));
}

namespace {

CudnnDescriptor Tensor(const Cudnn& library, ConvolutionTensor number, const std::array<int64_t, 4>& dims,
                       ImageLayout layout, int64_t alignment) {
  const auto [n, c, h, w] = dims;
  const std::array<int64_t, 4> row_major = {c * h * w, h * w, w, 1}, channels_last = {c * h * w, 1, w * c, c};
  const auto uid = static_cast<int64_t>(number);
  CudnnDescriptor tensor(library, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  tensor.Set(CUDNN_ATTR_TENSOR_UNIQUE_ID, {&uid, 1});
  tensor.Set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_DATA_FLOAT);
  tensor.Set(CUDNN_ATTR_TENSOR_DIMENSIONS, dims);
  tensor.Set(CUDNN_ATTR_TENSOR_STRIDES, layout == ImageLayout::kRowMajor ? row_major : channels_last);
  tensor.Set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, {&alignment, 1});
  tensor.Finalize();
  return tensor;
}

CudnnDescriptor Window(const Cudnn& library, const WindowShape& w) {
  const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  const std::array<int64_t, 1> dims = {2};
  const std::array<int64_t, 2> pads = {w.pad_height, w.pad_width},
                               strides = {w.stride_height, w.stride_width},
                               dilations = {w.dilation_height, w.dilation_width};
  CudnnDescriptor window(library, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  window.Set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT);
  window.Set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
  window.Set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, dims);
  window.Set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, pads);
  window.Set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, pads);
  window.Set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, strides);
  window.Set(CUDNN_ATTR_CONVOLUTION_DILATIONS, dilations);
  window.Finalize();
  return window;
}

// The names of an operation's attributes.
struct Names {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t x, weight, out, window, alpha, beta;
};
Names NamesOf(ConvolutionPass pass) {
  switch (pass) {
    case ConvolutionPass::kForward:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
    case ConvolutionPass::kGradX:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
    case ConvolutionPass::kGradWeight:
      break;
  }
  return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
}

CudnnDescriptor Operation(const Cudnn& library, const ConvolutionProblem& problem) {
  const ConvShape& s = problem.shape;
  const Names names = NamesOf(problem.pass);
  const int64_t alignment = problem.aligned ? 16 : sizeof(float);
  const CudnnDescriptor x =
      Tensor(library, ConvolutionTensor::kX, {s.batch, s.in_channels, s.in_height, s.in_width},
             problem.layout, alignment);
  const CudnnDescriptor weight =
      Tensor(library, ConvolutionTensor::kWeight,
             {s.out_channels, s.in_channels / s.groups, s.window.height, s.window.width},
             ImageLayout::kRowMajor, alignment);
  const CudnnDescriptor out =
      Tensor(library, ConvolutionTensor::kOut, {s.batch, s.out_channels, s.out_height(), s.out_width()},
             problem.layout, alignment);
  const float one = 1, zero = 0;
  CudnnDescriptor operation(library, names.type);
  operation.Set(names.window, Window(library, s.window));
  operation.Set(names.x, x);
  operation.Set(names.weight, weight);
  operation.Set(names.out, out);
  operation.Set(names.alpha, CUDNN_TYPE_FLOAT, 1, &one);
  operation.Set(names.beta, CUDNN_TYPE_FLOAT, 1, &zero);
  operation.Finalize();
  return operation;
}

CudnnDescriptor Graph(const CudnnDescriptor& operation) {
  CudnnDescriptor graph(operation.library(), CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.Set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operation);
  graph.Finalize();
  return graph;
}

// Returns configurations of engines, the one that is expected to be the fastest first.
std::vector<CudnnDescriptor> Configurations(const CudnnDescriptor& card, const CudnnDescriptor& graph,
                                            cudnnBackendHeurMode_t mode) {
  constexpr int64_t kMost = 64;
  CudnnDescriptor heuristics(card.library(), CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.Set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  heuristics.Set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
  heuristics.Set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, card);
  if (!heuristics.TryFinalize()) return {};
  std::vector<CudnnDescriptor> found;
  std::vector<cudnnBackendDescriptor_t> pointers;
  for (int64_t i = 0; i < kMost; ++i)
    pointers.push_back(found.emplace_back(card.library(), CUDNN_BACKEND_ENGINECFG_DESCRIPTOR).get());
  int64_t count = 0;
  Require(card.library(),
          card.library().GetAttribute(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                      CUDNN_TYPE_BACKEND_DESCRIPTOR, kMost, &count, pointers.data()),
          "cudnnBackendGetAttribute of engines");
  found.erase(found.begin() + static_cast<ptrdiff_t>(std::min(count, kMost)), found.end());
  return found;
}

CudnnDescriptor EngineOf(const CudnnDescriptor& configuration) {
  CudnnDescriptor engine(configuration.library(), CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t pointer = engine.get();
  int64_t count = 0;
  Require(configuration.library(),
          configuration.library().GetAttribute(configuration.get(), CUDNN_ATTR_ENGINECFG_ENGINE,
                                               CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &pointer),
          "cudnnBackendGetAttribute of an engine");
  return engine;
}

// Says whether the engine computes with the bits that the arithmetic allows, and the same in every run.
bool Suits(const CudnnDescriptor& engine, Arithmetic arithmetic) {
  const std::vector<int64_t> notes =
      engine.Get(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                 sizeof(cudnnBackendNumericalNote_t), CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
  return std::none_of(notes.begin(), notes.end(), [&](int64_t note) {
    switch (note) {
      case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC:
      case CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION:
        return true;
      case CUDNN_NUMERICAL_NOTE_TENSOR_CORE:
      case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS:
        return arithmetic == Arithmetic::kFloat32;
      default:
        return false;
    }
  });
}

std::optional<ConvolutionPlan> Plan(const CudnnDescriptor& card, const CudnnDescriptor& configuration) {
  CudnnDescriptor plan(card.library(), CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  plan.Set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
  plan.Set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, card);
  if (!plan.TryFinalize()) return std::nullopt;
  const int64_t workspace =
      plan.Get(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, sizeof(int64_t), 1).at(0);
  return ConvolutionPlan{.plan = std::move(plan), .workspace = workspace};
}

}  // namespace

std::vector<ConvolutionPlan> FindPlans(const CudnnDescriptor& card, const ConvolutionProblem& problem,
                                       int64_t most_workspace, size_t most) {
  const CudnnDescriptor operation = Operation(card.library(), problem), graph = Graph(operation);
  std::vector<ConvolutionPlan> plans;
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    for (const CudnnDescriptor& configuration : Configurations(card, graph, mode)) {
      if (plans.size() == most) return plans;
      const CudnnDescriptor engine = EngineOf(configuration);
      if (!Suits(engine, problem.shape.arithmetic)) continue;
      std::optional<ConvolutionPlan> plan = Plan(card, configuration);
      if (!plan || plan->workspace > most_workspace) continue;
      plan->engine = engine.Get(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, sizeof(int64_t), 1).at(0);
      plans.push_back(std::move(*plan));
    }
  }
  return plans;
}

}  // namespace sluice::cuda
