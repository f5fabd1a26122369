// A StoreContext whose client's loop runs when the test says so.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "unit/recording_network.h"
#include "worker/store/store_context.h"
#include "worker/store/store_key_table.h"

namespace sluice::worker {

// Keeps the tasks until RunAll.
class ManualLoop final : public transport::Loop {
 public:
  bool Post(Task task) override {
    tasks_.push_back(std::move(task));
    return true;
  }
  const std::vector<std::string>& addresses() const override { return addresses_; }

  size_t num_tasks() const { return tasks_.size(); }
  void RunAll() {
    for (Task& task : std::exchange(tasks_, {})) task(Time{}, network_);
  }
  // Drops the tasks, as a loop that ends does. They hold the loop.
  void End() { std::exchange(tasks_, {}).clear(); }

 private:
  std::vector<Task> tasks_;
  std::vector<std::string> addresses_;
  testing::RecordingNetwork network_;
};

struct StoreFixture {
  ~StoreFixture() { loop->End(); }
  // A dense key of float32 with parts of `part_elements`, all on the shard.
  StoreKey& AddKey(const Key& name, int64_t elements, int64_t part_elements, uint32_t shard = 0) {
    keys.Add({{.id = static_cast<uint32_t>(keys.keys().size()),
               .spec = {.name = name, .dtype = DType::kFloat32, .shape = {elements}},
               .slices = {{.shard = shard, .offset = 0, .length = elements}},
               .part_elements = part_elements}});
    return keys.Find("AddKey", name);
  }

  std::shared_ptr<ManualLoop> loop = std::make_shared<ManualLoop>();
  StoreContext context{{.type = "dist_sync"}, std::make_shared<Client>(ClientOptions{}), loop};
  StoreKeyTable keys;
};

}  // namespace sluice::worker
