// The training run that the training programs share.
//
// Train does what every data-parallel program does: it initialises the parameters, creates the store, checks
// that all workers were started alike, loads a checkpoint if asked to, and calls Fit. The same code runs with
// one device, several devices, and in each worker process of a job. Rank 0 alone reads checkpoints and writes
// files; it passes the position at which the run continues to the others with KVStore::Agree. The store
// brings the weights to them. All of this runs on the main thread.
#include "common/training.h"

#include <filesystem>
#include <iomanip>
#include <iostream>
#include <nlohmann/json.hpp>

#include "common/flags.h"
#include "common/optimizer.h"
#include "common/outputs.h"
#include "common/placement.h"
#include "common/text.h"
#include "sluice/checkpoint.h"
#include "sluice/fit.h"
#include "sluice/job.h"
#include "sluice/parameters_file.h"
#include "sluice/trace.h"

namespace sluice::examples {
namespace {

std::string Order(uint64_t seed, bool shuffle) {
  return shuffle ? StrCat("--seed ", seed) : "--shuffle=false";
}
std::string OrderOfFlags() {
  return Order(static_cast<uint64_t>(FLAGS_seed), FLAGS_shuffle);
}
std::string OrderOf(const LoadedCheckpoint& loaded) {
  return loaded.has_position ? Order(loaded.seed, loaded.shuffle) : OrderOfFlags();
}

// Within an epoch the position is a number of batches. With another batch size, order or data set, the same
// number would stand for other samples, so the run must continue with the settings of the checkpoint.
void RequireSameBatches(const LoadedCheckpoint& loaded, const Batching& now) {
  if (loaded.next.step == 0 || loaded.batching == Batching()) return;
  std::string difference = DifferenceOf(loaded.batching, now);
  if (difference.empty() && OrderOf(loaded) != OrderOfFlags())
    difference = StrCat("the samples came in the order of ", OrderOf(loaded), " and would go on in that of ",
                        OrderOfFlags());
  if (difference.empty()) return;
  throw Error(ErrorCode::kFailedPrecondition,
              StrCat("cannot go on from ", CheckpointFile(FLAGS_model_prefix, loaded.next), ", within epoch ",
                     loaded.next.epoch + 1, ": ", difference,
                     "; give the same --num-examples, --batch-size times workers, --last-batch, "
                     "--class-weights, --seed and --shuffle, or remove the checkpoints after the end of an "
                     "epoch and go on from "
                     "there"));
}

// Describes the first line in which two texts differ: its number, and both lines, each cut to 60 bytes.
std::string FirstDifference(const std::string& then, const std::string& now) {
  const std::vector<std::string> before = StrSplit(then, '\n'), after = StrSplit(now, '\n');
  const auto line = [](const std::vector<std::string>& lines, size_t i) {
    constexpr size_t kMost = 60;
    return i < lines.size() ? StrCat("'", StrPrintable(lines[i].substr(0, kMost)), "'") : "missing";
  };
  size_t i = 0;
  while (i < before.size() && i < after.size() && before[i] == after[i]) ++i;
  return StrCat("line ", i + 1, " was ", line(before, i), " and is ", line(after, i));
}

// The metadata say what the numbers of the samples mean, such as which word an id stands for. With other
// metadata than those of the checkpoint, the network would read the same numbers as other words or classes.
void RequireSameMetadata(const LoadedCheckpoint& saved, const Data& data) {
  FileMetadata all = saved.metadata;
  all.insert(data.metadata.begin(), data.metadata.end());
  const std::string file = CheckpointFile(FLAGS_model_prefix, saved.next);
  for (const auto& [name, unused] : all) {
    const auto then = saved.metadata.find(name), now = data.metadata.find(name);
    const bool was = then != saved.metadata.end(), is = now != data.metadata.end();
    if (was && is && then->second == now->second) continue;
    throw Error(ErrorCode::kFailedPrecondition,
                StrCat("cannot go on from ", file, ": ",
                       !was  ? StrCat("it has no '", name, "' in its metadata")
                       : !is ? StrCat("its metadata have '", name, "', and ", data.name, " have none")
                             : StrCat("its '", name, "' is another than that of ", data.name, ": ",
                                      FirstDifference(then->second, now->second)),
                       "; give the data and flags that the run began with, or begin another one",
                       was && is ? StrCat(" with its parameters: --load-params ", file) : ""));
  }
}

LoadedCheckpoint LoadAt(const Position& next, const Data& data, const nn::ParameterDict& parameters) {
  RequireSameMetadata(ReadCheckpoint(FLAGS_model_prefix, next), data);
  return LoadCheckpoint(FLAGS_model_prefix, next, parameters);
}

// Loads the newest checkpoint of --model-prefix; without one, returns the start of a new run. If the newest
// is damaged, the error names the one before it, from which the run can continue.
LoadedCheckpoint LoadNewest(const Data& data, const nn::ParameterDict& parameters) {
  const auto found = ListCheckpoints(FLAGS_model_prefix);
  if (found.empty()) return {};
  try {
    return LoadAt(found.back(), data, parameters);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kDataLoss || found.size() == 1) throw;
    throw Error(error.code(), StrCat(error.what(), "; to go on from the checkpoint before, ",
                                     CheckpointFile(FLAGS_model_prefix, found[found.size() - 2]), ", remove ",
                                     CheckpointFile(FLAGS_model_prefix, found.back())));
  }
}

// Loads the checkpoint that --load-epoch or --resume names. Only rank 0 reads files: the other workers
// receive position and counts with Agree, and the weights from the store. Every worker must call this.
LoadedCheckpoint Start(const Data& data, const Batching& batching, const nn::ParameterDict& parameters,
                       KVStore& store) {
  LoadedCheckpoint loaded;
  if (store.rank() == 0) {
    loaded = FLAGS_resume ? LoadNewest(data, parameters) : LoadAt({FLAGS_load_epoch, 0}, data, parameters);
    RequireSameBatches(loaded, batching);
  }
  const nlohmann::json mine = {loaded.next.epoch, loaded.next.step, loaded.step, loaded.updates,
                               loaded.states};
  const auto word =
      nlohmann::json::parse(store.Agree(mine.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)));
  word[0].get_to(loaded.next.epoch);
  word[1].get_to(loaded.next.step);
  word[2].get_to(loaded.step);
  word[3].get_to(loaded.updates);
  // Rank 0 opens this file and keeps its name: in the JSON, bytes that are not UTF-8 have been replaced.
  if (store.rank() != 0) word[4].get_to(loaded.states);
  return loaded;
}

// The 64-bit FNV-1a hash (Fowler, Noll, Vo): unlike std::hash, it is the same on every machine.
uint64_t DigestOf(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

// Throws on each worker whose flags or data differ from those of rank 0. It covers what Fit does not compare:
// some flags, and digests of the metadata, since each worker reads its own copy of the data.
void RequireSameOnAllWorkers(const FileMetadata& metadata, KVStore& store) {
  std::string own =
      StrCat("--resume: ", FLAGS_resume ? "true" : "false", "\n--load-epoch: ", FLAGS_load_epoch,
             "\n--label-smoothing: ", FLAGS_label_smoothing, "\n--gc-type: ", FLAGS_gc_type,
             "\n--gc-threshold: ", FLAGS_gc_threshold, "\n--gc-ratio: ", FLAGS_gc_ratio,
             "\n--gc-weights: ", FLAGS_gc_weights, "\n--network: ", FLAGS_network);
  for (const auto& [name, text] : metadata) own += StrCat("\nthe data's ", name, ": digest ", DigestOf(text));
  const std::string first = store.Agree(own);
  if (own == first) return;
  const std::vector<std::string> mine = StrSplit(own, '\n'), theirs = StrSplit(first, '\n');
  size_t i = 0;
  while (i < mine.size() && i < theirs.size() && mine[i] == theirs[i]) ++i;
  const auto line = [i](const std::vector<std::string>& lines) {
    return i < lines.size() ? lines[i] : "nothing more";
  };
  throw Error(ErrorCode::kInvalidArgument,
              StrCat("training: worker ", store.rank(), " has ", line(mine), ", worker 0 ", line(theirs),
                     ": start all workers with the same flags and data"));
}

void PrintStart(const LoadedCheckpoint& start, const Network& network) {
  if (start.next == Position()) return;
  if (!network.plan.empty()) {
    std::cerr << WrapMessage(
                     "warning: --group2ctx auto measures anew, and may spread the layers in another way than "
                     "before, which changes the rounding of sums; the map that the run printed does not")
              << std::endl;
  }
  std::cout << WrapMessage(
                   StrCat("goes on after epoch ", start.next.epoch,
                          start.next.step > 0 ? StrCat(" and ", start.next.step, " steps") : "", ", with ",
                          start.states.empty() ? "optimiser states of zero: none were saved" : start.states))
            << std::endl;
  if (!TrainsAfter(start.next.epoch, start.step)) {
    std::cout << "nothing is left to train: "
              << (FLAGS_num_steps >= 0
                      ? StrCat("--num-steps is ", FLAGS_num_steps, ", and ", start.step, " are done")
                      : StrCat("--num-epochs is ", FLAGS_num_epochs))
              << std::endl;
  }
  if (OrderOf(start) != OrderOfFlags()) {
    std::cerr << WrapMessage(StrCat("warning: the epochs before were trained with ", OrderOf(start),
                                    "; the order of samples goes on as that of ", OrderOfFlags()))
              << std::endl;
  }
}

// Returns --trace for worker 0, and the name of another worker's file: step.json, step.worker1.json.
std::string TraceFile(int rank) {
  const std::filesystem::path file(FLAGS_trace);
  if (rank == 0) return file.string();
  const std::string name = StrCat(file.stem().string(), ".worker", rank, file.extension().string());
  return (file.parent_path() / name).string();
}

// Returns the contexts to which batches are copied.
std::vector<Context> BatchContexts(const Network& network) {
  return network.placed ? std::vector{network.contexts.front()} : network.contexts;
}

std::shared_ptr<const nn::Loss> LossOf(const Data& data) {
  if (data.loss != nullptr) return data.loss;
  return std::make_shared<nn::SoftmaxCrossEntropyLoss>(
      nn::SoftmaxCrossEntropyLoss::Options{.label_smoothing = static_cast<float>(FLAGS_label_smoothing)});
}

std::string Parts() {
  return MicroBatches() > 0 ? StrCat(MicroBatches(), " micro-batches") : "one after the other";
}

void Introduce(const Data& data, const KVStore& store, const Network& network,
               const OptimizerConfig& optimizer) {
  std::cout << FLAGS_network << (WeightType() == DType::kFloat32 ? "" : StrCat(" in ", FLAGS_dtype)) << " on "
            << data.name << ", " << data.train->size() << " " << data.samples << "\n"
            << store.type() << ", " << Counted(store.num_workers(), "worker") << " x "
            << Counted(static_cast<int64_t>(network.contexts.size()), "device")
            << (network.placed ? StrCat(", the layers spread over them, ", Parts()) : "")
            << (FLAGS_gc_type == "none" ? "" : StrCat(", pushes as ", FLAGS_gc_type)) << "\n"
            << Describe(optimizer) << "\n"
            << network.plan << std::flush;
}

FitOptions Options(const LoadedCheckpoint& start, const std::vector<double>& class_weights, const Data& data,
                   const Network& network, std::shared_ptr<const nn::Loss> loss) {
  FitOptions options;
  options.samples = data.samples;
  options.contexts = BatchContexts(network);
  options.micro_batches = MicroBatches();
  options.loss = std::move(loss);
  options.work_load = WorkLoads();
  options.batch_size = FLAGS_batch_size;
  options.num_epochs = FLAGS_num_epochs;
  options.num_steps = FLAGS_num_steps;
  options.start = start.next;
  options.start_step = start.step;
  options.memory = start.memory;
  options.optimizer_states = start.states;
  options.statistics = start.statistics;
  options.carried_states = FLAGS_model_prefix;
  options.shuffle = FLAGS_shuffle;
  options.seed = static_cast<uint64_t>(FLAGS_seed);
  options.clip_global_norm = FLAGS_clip_global_norm;
  options.last_batch = LastBatchPolicy();
  options.class_weights = class_weights;
  options.metric = data.metric;
  options.eval_batch_size = data.eval_batch_size;
  options.loader_threads = static_cast<int>(FLAGS_loader_threads);
  options.disp_batches = FLAGS_disp_batches;
  options.top_k = FLAGS_top_k;
  options.live_progress = true;
  options.eval_steps = FLAGS_eval_steps;
  options.callbacks = Callbacks(data.metadata);
  return options;
}

void Initialize(const Network& network, const std::shared_ptr<const nn::Initializer>& init, uint64_t seed) {
  if (const auto* const placed = dynamic_cast<const nn::PlacedSequential*>(network.net.get()))
    return placed->Initialize(init, seed);
  network.net->CollectParams().Initialize(network.contexts, init, seed);
}

std::shared_ptr<const Dataset> First(const std::string& flag, int64_t count, const Data& data,
                                     const std::shared_ptr<const Dataset>& all) {
  if (count > all->size()) {
    ThrowInvalid(flag,
                 StrCat("is ", count, "; there are ", all->size(), " ", data.samples, " in ", data.name));
  }
  return count < 0 ? all : Take(all, count);
}

}  // namespace

Data Part(Data all) {
  const Shape &train = all.train->sample_shape(), &test = all.test->sample_shape();
  if (train != test) {
    throw Error(ErrorCode::kInvalidArgument, StrCat(all.name, ": training ", all.samples, " have the shape ",
                                                    train, " and test ", all.samples, " ", test));
  }
  all.train = First("num-examples", FLAGS_num_examples, all, all.train);
  all.test = First("num-test-examples", FLAGS_num_test_examples, all, all.test);
  return all;
}

void Train(const Program& program, const std::function<nn::Sequential()>& make, const Data& data,
           std::shared_ptr<const nn::Initializer> init) {
  std::unique_ptr<const Trace> trace;
  if (!FLAGS_trace.empty()) trace = std::make_unique<const Trace>();
  // Every flag is checked before KVStore::Create joins the job: until then RunProgram answers a bad flag with
  // exit code 2 (sluice/runtime.h).
  const int64_t classes = data.train->num_classes();
  if (FLAGS_top_k > classes)
    ThrowInvalid("top-k", StrCat("is ", FLAGS_top_k, "; there are ", classes, " classes"));
  const std::vector<double> class_weights = ClassWeights(*data.train);
  LoadedCheckpoint start;
  const auto seed = static_cast<uint64_t>(FLAGS_seed);
  const SamplerConfig sampler{data.train->size(), FLAGS_batch_size, seed, FLAGS_shuffle, LastBatchPolicy()};
  const JobInfo job = Job();
  const int workers = IsDistributed() ? job.num_workers : 1;
  OptimizerConfig optimizer = MakeOptimizer(program.rates, start, sampler, workers);
  WarnOfOptimizer(program.unfit);
  const std::shared_ptr<const nn::Loss> loss = LossOf(data);
  const Network network = PlaceNetwork(make, *data.train, *loss, optimizer);
  nn::Layer& net = *network.net;
  Initialize(network, init, seed);
  if (!FLAGS_load_params.empty()) LoadParameters(FLAGS_load_params, net.CollectParams());

  const auto store = KVStore::Create(FLAGS_kv_store);
  const bool leader = store->rank() == 0;
  RequireSameOnAllWorkers(data.metadata, *store);
  store->SetGradientCompression(CompressionOfPushes());
  if (!FLAGS_trace.empty()) RequirePlaceFor("trace", TraceFile(store->rank()));
  if (leader) CheckOutputs();  // before a checkpoint is read from one of the folders
  if (FLAGS_resume || FLAGS_load_epoch > 0) {
    const Batching batching{data.train->size(), GlobalBatch(sampler, store->num_workers()), LastBatchPolicy(),
                            class_weights};
    start = Start(data, batching, net.CollectParams(), *store);
    optimizer = MakeOptimizer(program.rates, start, sampler, workers);
  }
  if (leader) {
    Introduce(data, *store, network, optimizer);
    PrintStart(start, network);
  }
  const FitReport report =
      Fit(net, data.train, data.test, optimizer, store, Options(start, class_weights, data, network, loss));
  if (leader) {
    if (!FLAGS_save_params.empty()) SaveParameters(FLAGS_save_params, net.CollectParams(), data.metadata);
    const std::string metric = data.metric ? data.metric()->name() : "accuracy";
    EvalReport last{report.test_score, report.test_loss, report.test_top_k};
    if (data.held_out != nullptr) {
      std::cout << "final " << metric << " of the set that epochs are judged by " << std::fixed
                << std::setprecision(4) << last.score << "\n";
      last = Evaluate(net, *data.held_out, BatchContexts(network),
                      {.loss = loss, .metric = data.metric, .batch_size = data.eval_batch_size});
    }
    if (!FLAGS_json.empty()) WriteJson(report, metric, last, *store, job.num_servers, data.samples);
    std::cout << "final test " << metric << " " << std::fixed << std::setprecision(4) << last.score
              << std::endl;
    if (network.placed) std::cout << DescribeMemory(network.contexts) << std::endl;
  }
  if (trace != nullptr) trace->Write(TraceFile(store->rank()), StrCat("worker ", store->rank()));
  store->Barrier();
}

}  // namespace sluice::examples
