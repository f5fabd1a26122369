// Updates of whole arrays: the updates of one call are grouped by context. A group runs as one operation of
// its context's stream, which calls Run on a cpu context, where the compute threads share the elements of all
// its arrays, and UpdateOnCard on a card, where kernels do. Invariants: a Task's frames keep the arrays'
// memory alive; no array waits for an update that is never enqueued. LocalDenseKeys, UpdaterRunner and
// LocalUpdate call EnqueueUpdates on the program's threads.
#include "kvstore/update_array.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/pool_allocator.h"
#include "base/strings.h"
#include "kvstore/card_update.h"
#include "tensor/access.h"
#include "tensor/devices.h"
#include "tensor/storage.h"

namespace sluice::kvstore {
namespace {

constexpr int64_t kWorthAThread = 1 << 14;  // elements that are worth a thread: about 20 us

// The update of one array within an operation.
struct Task {
  std::shared_ptr<const ArrayRule> array_rule;
  UpdateInput input;
  Frame gradient, weight;
  compression::Encoded source;
  std::byte* target;
  Events after;
  Event done;
  std::exception_ptr error;  // why it cannot be updated; null when it can

  size_t length() const { return input.length; }
  void Prepare() {
    input.spec = &array_rule->spec;
    input.gradients = std::span(&source, 1);
    try {
      for (const Event& event : after) event.Wait();
      if (!array_rule->rule.needs_norms()) return;
      Optimizer::Norms norms;
      MeasurePart(array_rule->rule, input, weight.data(), array_rule->states, &norms);
      input.norms = norms;
    } catch (...) {
      error = OfOperation(done.what(), std::current_exception());
    }
  }
  void Update(size_t begin, size_t end) const {
    if (error == nullptr)
      UpdateRange(array_rule->rule, input, weight.data(), target, array_rule->states, begin, end);
  }
};

// The memory comes from the context's pool of operation records.
using Tasks = std::vector<Task, MemoryOf<Task>>;

// Updates elements [begin, end), counted through all arrays one after another.
void UpdateElements(const Tasks& tasks, int64_t begin, int64_t end) {
  for (const Task& task : tasks) {
    const auto length = static_cast<int64_t>(task.length());
    const int64_t from = std::max<int64_t>(begin, 0), to = std::min(end, length);
    if (from < to) task.Update(static_cast<size_t>(from), static_cast<size_t>(to));
    begin -= length;
    end -= length;
    if (end <= 0) return;
  }
}

void Run(Tasks& tasks) {
  int64_t elements = 0;
  for (Task& task : tasks) {
    task.Prepare();
    elements += static_cast<int64_t>(task.length());
  }
  ForPieces(elements, kWorthAThread, [&](int64_t begin, int64_t end) { UpdateElements(tasks, begin, end); });
  for (Task& task : tasks) task.done.Complete(task.error);
}

UpdateInput WithSpec(UpdateInput input, const wire::KeySpec& spec) {
  input.spec = &spec;
  return input;
}

Task MakeTask(PendingUpdate& of, Device& device) {
  of.done = Event::Make(of.what, device.stream(), device.records());
  SLUICE_CHECK(of.gradients.size() == 1) << of.what << " has several gradients, but its weight is on no card";
  NDArray& from = of.gradients[0];
  if (from.context().kind == DeviceKind::kGpu) from = from.AsInContext(of.weight.context());
  Events after = PendingUses(of.weight);
  after.push_back(ReadyToRead(of.weight));
  after.push_back(ReadyToRead(from));
  Frame gradient = HostFrame(from);
  const compression::Encoded source{gradient.data(), gradient.size()};
  Task task{.array_rule = of.array_rule,
            .input = of.input,
            .gradient = std::move(gradient),
            .weight = HostFrame(of.weight),
            .source = source,
            .target = MutableHostBytes(of.weight).data(),
            .after = std::move(after),
            .done = of.done,
            .error = nullptr};
  return task;
}

// The update of one array within an operation of a card.
struct CardTask {
  // `from`: the gradients, on the card.
  CardTask(const PendingUpdate& of, std::span<const NDArray> from)
      : array_rule(of.array_rule),
        weight(internal::DataOf<std::byte>(of.weight)),
        update{.optimizer = array_rule->rule.optimizer.get(),
               .step = {},
               .scale = of.input.scale,
               .dtype = array_rule->spec.dtype,
               .weight = nullptr,
               .gradients = {},
               .exponent = of.exponent,
               .states = {},
               .copies = {},
               .n = static_cast<int64_t>(of.input.length)} {
    for (const NDArray& gradient : from) gradients.push_back(internal::DataOf<const std::byte>(gradient));
    if (update.optimizer != nullptr)
      update.step = StepOf(*update.optimizer, WithSpec(of.input, array_rule->spec));
    for (const NDArray& state : array_rule->card_states) {
      SLUICE_CHECK(state.context() == of.weight.context()) << "the states of " << of.what << " lie elsewhere";
      states.push_back(internal::DataOf<std::byte>(state));
    }
    for (const NDArray& copy : of.copies) copies.push_back(internal::DataOf<std::byte>(copy));
  }
  CardUpdate WithAddresses() const {
    CardUpdate now = update;
    now.weight = weight;
    for (const auto& gradient : gradients) now.gradients.push_back(gradient.get());
    for (const auto& state : states) now.states.push_back(state.get());
    for (const auto& copy : copies) now.copies.push_back(copy.get());
    return now;
  }

  std::shared_ptr<const ArrayRule> array_rule;
  internal::Data<std::byte> weight;
  InlineVector<internal::Data<const std::byte>, 2> gradients;
  InlineVector<internal::Data<std::byte>, 4> states;
  InlineVector<internal::Data<std::byte>, 2> copies;
  CardUpdate update;  // without addresses, which are those of the arrays when the operation runs
};

using Updates = InlineVector<PendingUpdate*, 8>;

Label NameOf(const Updates& updates) {
  const Label& first = updates.front()->what;
  return updates.size() == 1 ? first : StrCat(first.text(), " and ", updates.size() - 1, " more");
}

// Enqueues the updates, all of weights on `card`, as one operation.
void EnqueueOnCard(Context card, const Updates& updates) {
  internal::ArrayRefs read, written;  // updates that have failed leave the states as they were
  std::vector<NDArray> gradients;     // refs point to them
  size_t count = 0;
  for (const PendingUpdate* of : updates) count += of->gradients.size();
  gradients.reserve(count);
  std::vector<CardTask> tasks;
  tasks.reserve(updates.size());
  for (const PendingUpdate* of : updates) {
    const size_t first = gradients.size();
    for (const NDArray& gradient : of->gradients) {
      gradients.push_back(gradient.AsInContext(card));
      read.Add(gradients.back());
    }
    tasks.emplace_back(*of, std::span(gradients).subspan(first));
    read.Add(of->weight);
    written.Add(of->weight);
    for (const NDArray& state : of->array_rule->card_states) written.Add(state);
    for (const NDArray& copy : of->copies) written.Add(copy);
  }
  const Event done =
      internal::Launch(NameOf(updates), card, read, written, [tasks = std::move(tasks)](Kernels& kernels) {
        std::vector<CardUpdate> all;
        all.reserve(tasks.size());
        for (const CardTask& task : tasks) all.push_back(task.WithAddresses());
        UpdateOnCard(kernels, all);
      });
  for (PendingUpdate* of : updates) of->done = done;
}

void EnqueueThoseOn(Context context, std::span<PendingUpdate> updates) {
  if (context.kind == DeviceKind::kGpu) {
    Updates together;
    for (PendingUpdate& update : updates) {
      if (update.weight.context() == context) together.push_back(&update);
    }
    EnqueueOnCard(context, together);
    return;
  }
  const std::shared_ptr<Device> device = Devices::Default()->Get(context);
  const auto here = [context](const PendingUpdate& update) { return update.weight.context() == context; };
  Tasks tasks{MemoryOf<Task>(device->records())};
  tasks.reserve(static_cast<size_t>(std::ranges::count_if(updates, here)));
  for (PendingUpdate& update : updates) {
    if (here(update)) tasks.push_back(MakeTask(update, *device));
  }
  device->stream().Enqueue("updates", {}, [tasks = std::move(tasks)]() mutable { Run(tasks); });
  // Only now, so that no array waits for an update that is never enqueued.
  for (PendingUpdate& update : updates) {
    if (!here(update)) continue;
    AddReader(update.gradients.front(), update.done);
    SetWriter(update.weight, update.done);
  }
}

}  // namespace

void EnqueueUpdates(std::span<PendingUpdate> updates) {
  InlineVector<Context, 8> contexts;
  for (const PendingUpdate& update : updates) {
    const Context context = update.weight.context();
    if (std::ranges::find(contexts, context) == contexts.end()) contexts.push_back(context);
  }
  for (const Context context : contexts) EnqueueThoseOn(context, updates);
}

}  // namespace sluice::kvstore
