// The notations of keys and arrays that calls take (sluice/key.h, sluice/array_list.h): that they compile,
// and mean the keys and arrays that they name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "sluice/sluice.h"
#include "unit/expect_error.h"

namespace sluice {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(NotationsTest, SeveralKeysInOneCall) {
  const auto kv = KVStore::Create("local");
  const NDArray x = NDArray::From({1, 2}, {2}), y = x * 10;
  NDArray u({2}), v({2});
  kv->Init({"a", "b"}, {x, y});
  kv->Pull({"a", "b"}, {u, v});
  EXPECT_THAT(v.ToVector(), ElementsAre(10, 20));
  kv->Push({"a", "b"}, {y, x});
  kv->Pull({"a", "b"}, {&u, &v});
  EXPECT_THAT(u.ToVector(), ElementsAre(10, 20));
  kv->Push({"a", "b"}, {{x, x}, {y, y}});
  kv->Pull({"a", "b"}, {{u}, {v}});
  EXPECT_THAT(u.ToVector(), ElementsAre(2, 4));
  EXPECT_THAT(v.ToVector(), ElementsAre(20, 40));
  kv->Push({"a"}, {{x, y}});  // one key, two devices
  kv->Pull({"a"}, {u});
  EXPECT_THAT(u.ToVector(), ElementsAre(11, 22));
  const std::vector<NDArray> devices = {x, x};
  kv->Push({"a"}, {devices});
  kv->Pull({"a"}, {std::vector<NDArray>{u, v}});
  EXPECT_THAT(v.ToVector(), ElementsAre(2, 4));
  kv->Push({"a"}, {devices}, {.divisor = 2});
  kv->Pull({"a"}, {{v, u}});
  EXPECT_THAT(u.ToVector(), ElementsAre(1, 2));
  EXPECT_THROW(kv->Pull({"a"}, {}), Error);
  EXPECT_THROW(kv->PullLatest({"a"}, {}), Error);
  kv->PushPull({"a", "b"}, {x, y}, {u, v});
  EXPECT_THAT(v.ToVector(), ElementsAre(10, 20));
  kv->PullLatest({"a", "b"}, {v, u});
  EXPECT_THAT(v.ToVector(), ElementsAre(1, 2));
  kv->Broadcast({"c", "d"}, {x, y}, {u, v});
  EXPECT_THAT(v.ToVector(), ElementsAre(10, 20));
  kv->PushPull({"a", "b"}, {y, x}, {&u, &v}, {.divisor = 2});
  EXPECT_THAT(u.ToVector(), ElementsAre(5, 10));
}

TEST(NotationsTest, SeveralKeysInVectors) {
  const auto kv = KVStore::Create("local");
  const NDArray x = NDArray::From({1, 2}, {2}), y = x * 10;
  NDArray u({2}), v({2});
  kv->Init({"a", "b"}, {x, y});
  const std::vector<std::string> names = {"a", "b"};
  const std::vector<NDArray> arrays = {y, x}, outs = {u, v};
  kv->Push(names, arrays);
  kv->Pull(names, outs);
  EXPECT_THAT(u.ToVector(), ElementsAre(10, 20));
  kv->Push(names, {x, y}, {.priority = 1});
  kv->Pull(names, {u, v}, 1);
  EXPECT_THAT(u.ToVector(), ElementsAre(1, 2));
  const std::vector<NDArray*> pointers = {&v, &u};
  kv->Pull(names, pointers);
  EXPECT_THAT(v.ToVector(), ElementsAre(1, 2));
  kv->PullLatest({"b", "a"}, pointers);
  EXPECT_THAT(u.ToVector(), ElementsAre(1, 2));
  EXPECT_THROW(kv->Pull(names, std::vector<NDArray*>{&u, nullptr}), Error);
  EXPECT_THROW(kv->Pull("a", nullptr), Error);
  NDArray p = x * 1, q = y * 1;
  kv->PushPull(names, std::vector<NDArray>{p, q}, {.divisor = 2});
  EXPECT_THAT(q.ToVector(), ElementsAre(5, 10));
  const PushOptions urgent{.priority = 1};
  kv->PushPull({"a", "b"}, {p, q}, urgent);
  kv->PushPull(names, {p, q}, {});
  const std::vector<size_t> numbers = {0, 1};
  const auto other = KVStore::Create("local");
  other->Init(numbers, arrays);
  other->Push({0, 1}, {x, y});
  other->Pull({0u, 1u}, {u, v});
  EXPECT_THAT(v.ToVector(), ElementsAre(10, 20));
}

TEST(NotationsTest, OneKeyOfSeveralDevices) {
  const auto kv = KVStore::Create("local");
  const NDArray x = NDArray::From({1, 2}, {2});
  NDArray u({2}), v({2}, cpu(1));
  kv->Broadcast("w", x, &u);
  kv->Push("w", {x, x});
  kv->Pull("w", {u, v});
  EXPECT_THAT(v.ToVector(), ElementsAre(2, 4));
  kv->Push("w", x);
  kv->Pull("w", u);
  EXPECT_THAT(u.ToVector(), ElementsAre(1, 2));
  kv->PushPull("w", x * 3, u);
  EXPECT_THAT(u.ToVector(), ElementsAre(3, 6));
  kv->PushPull("w", x * 4, &u);
  EXPECT_THAT(u.ToVector(), ElementsAre(4, 8));
  kv->PushPull("w", {u, v}, {.priority = 1});  // in place
  EXPECT_THAT(v.ToVector(), ElementsAre(6, 12));
  kv->PushPull("w", {x, x}, {u, v});
  EXPECT_THAT(u.ToVector(), ElementsAre(2, 4));
  kv->PushPull("w", {x * 1});
  kv->PushPull("w", {x * 1, x * 1}, {});
  kv->PushPull(std::string("w"), {x}, {u});
  EXPECT_THAT(u.ToVector(), ElementsAre(1, 2));
  NDArray halved = x * 1;
  kv->PushPull("w", halved, {.divisor = 2});
  EXPECT_THAT(halved.ToVector(), ElementsAre(0.5, 1));
  kv->PullLatest("w", u);
  EXPECT_THAT(u.ToVector(), ElementsAre(0.5, 1));
  kv->Broadcast("other", x, u);
  EXPECT_THAT(u.ToVector(), ElementsAre(1, 2));
  NDArray both = x * 1;
  kv->PushPull("w", both, nullptr, {.priority = 1});
  EXPECT_THAT(both.ToVector(), ElementsAre(1, 2));
}

// Pointers in braces are those arrays, not the range from the first to the last.
TEST(NotationsTest, PointersToArrays) {
  const auto kv = KVStore::Create("local");
  struct {
    NDArray a = NDArray::From({1}), between = NDArray::From({10}), c = NDArray::From({100});
  } s;
  NDArray u({1}), v({1}, cpu(1));
  const auto expect = [&](float value) {
    EXPECT_THAT(u.ToVector(), ElementsAre(value));
    EXPECT_THAT(v.ToVector(), ElementsAre(value));
    u.Fill(0);
    v.Fill(0);
  };
  kv->Broadcast("w", s.between, {&u, &v});
  expect(10);
  kv->Push("w", {&s.a, &s.c});
  kv->Pull("w", {&u, &v});
  expect(101);
  kv->Push({"w"}, {{&s.a, &s.a, &s.a}});
  kv->Pull({"w"}, {{&v, &u}});
  expect(3);
  kv->Push("w", std::vector<NDArray*>{&s.c, &s.a});
  kv->Pull("w", std::vector<NDArray*>{&u, &v});
  expect(101);
  kv->PushPull("w", {&s.a, &s.between}, {&u, &v});
  expect(11);
  kv->PushPull("w", {s.a, s.c}, {&u, &v});
  expect(101);
  kv->PullLatest("w", {&u, &v});
  expect(101);
  kv->PullLatest("w", std::vector<NDArray>{u, v});
  expect(101);
  kv->PullLatest({"w"}, {{&u, &v}});
  expect(101);
  kv->Init({"x", "y"}, {&s.c, &s.a});
  kv->Pull({"x", "y"}, {&u, &v});
  EXPECT_THAT(u.ToVector(), ElementsAre(100));
  EXPECT_THAT(v.ToVector(), ElementsAre(1));
  kv->Set({"x", "y"}, {&s.a, &s.c});
  kv->Pull({"x", "y"}, {{&u, &u}, {&v, &v}});
  EXPECT_THAT(u.ToVector(), ElementsAre(1));
  EXPECT_THAT(v.ToVector(), ElementsAre(100));
  EXPECT_THAT(ErrorOf(ErrorCode::kInvalidArgument,
                      [&] {
                        kv->Pull("w", {&u, nullptr});
                      }),
              HasSubstr("key w"));
}

// Every call with several keys, with arrays and pointers, one for each key and one for each key and device. A
// key's gradients are summed over devices, a pull writes to every output.
template <typename Keys>
class SeveralKeysTest {
 public:
  explicit SeveralKeysTest(const Keys& keys) : keys_(keys) { kv_->Init(keys_, {zero_, zero_}); }

  void Try() {
    const NDArray a = NDArray::From({1}), between = NDArray::From({50}), b = NDArray::From({2});
    const NDArray c = NDArray::From({10}), d = NDArray::From({20});
    kv_->Push(keys_, {a, b});
    Expect(1, 2);
    kv_->Push(keys_, {&c, &d});
    Expect(10, 20);
    kv_->Push(keys_, {{a, c}, {b, d}});
    Expect(11, 22);
    kv_->Push(keys_, {{&c, &c}, {&d, &a}});
    Expect(20, 21);
    kv_->Push(keys_, {{&a, &b}, {&c, &d}}, {.divisor = 2});
    Expect(1.5, 15);
    kv_->Push(keys_, {&b, &a}, 1);
    Expect(2, 1);
    kv_->Set(keys_, {&c, &a});
    Expect(10, 1);
    kv_->Set(keys_, {a, d});
    Expect(1, 20);
    kv_->PushPull(keys_, {{&a, &a}, {&d, &d}}, {{&u_, &v_}, {&w_, &x_}});
    ExpectPulled(2, 40);
    kv_->PushPull(keys_, {{a, b}, {c, d}}, {{u_, v_}, {w_, x_}}, {.divisor = 3});
    ExpectPulled(1, 10);
    kv_->PushPull(keys_, {&a, &c}, {&u_, &w_});
    kv_->PullLatest(keys_, {{&u_, &v_}, {&w_, &x_}});
    ExpectPulled(1, 10);
    const auto other = KVStore::Create("device");
    other->Broadcast(keys_, {&d, &b}, {{&u_, &v_}, {&w_, &x_}});
    ExpectPulled(20, 2);
    EXPECT_EQ(between.ToScalar(), 50);
  }

 private:
  void Expect(float first, float second) {
    kv_->Pull(keys_, {{&u_, &v_}, {&w_, &x_}});
    ExpectPulled(first, second);
    kv_->Pull(keys_, {&u_, &x_});
    EXPECT_EQ(u_.ToScalar(), first);
    EXPECT_EQ(x_.ToScalar(), second);
    kv_->Pull(keys_, {v_, w_});
    EXPECT_EQ(v_.ToScalar(), first);
    EXPECT_EQ(w_.ToScalar(), second);
  }
  void ExpectPulled(float first, float second) {
    for (NDArray* array : {&u_, &v_}) EXPECT_EQ(array->ToScalar(), first);
    for (NDArray* array : {&w_, &x_}) EXPECT_EQ(array->ToScalar(), second);
    for (NDArray* array : {&u_, &v_, &w_, &x_}) array->Fill(-1);
  }

  const Keys keys_;
  const std::shared_ptr<KVStore> kv_ = KVStore::Create("local");
  const NDArray zero_{Shape{1}};
  // Members, so that a range from one to the next would be found by its values.
  NDArray u_{Shape{1}}, v_{Shape{1}, cpu(1)}, w_{Shape{1}}, x_{Shape{1}, cpu(1)};
};

TEST(NotationsTest, EveryNotationOfSeveralKeysAndTheirArrays) {
  SeveralKeysTest(std::vector<Key>{"a", "b"}).Try();
  SeveralKeysTest(std::vector<std::string>{"a", "b"}).Try();
  SeveralKeysTest(std::array<int, 2>{0, 1}).Try();
  SeveralKeysTest(KeyList({"a", "b"})).Try();
}

TEST(NotationsTest, PointersInBracesAreArraysInEveryCall) {
  struct {
    NDArray x = NDArray::From({1, 2}, {2}), between = NDArray::From({7, 7}, {2}),
            y = NDArray::From({5, 6}, {2});
  } s;
  for (NDArray* array : {&s.x, &s.between, &s.y}) autograd::AttachGrad(*array);
  NDArray p, q;
  {
    autograd::RecordScope record;
    p = s.x * 2;
    q = s.y * 3;
  }
  const NDArray ones = NDArray::From({1, 1}, {2}), tens = ones * 10;
  autograd::Backward({&p, &q}, {&ones, &tens});
  EXPECT_THAT(autograd::Grad(s.x).ToVector(), Each(2));
  EXPECT_THAT(autograd::Grad(s.y).ToVector(), Each(30));
  EXPECT_THAT(autograd::Grad(s.between).ToVector(), Each(0));

  NDArray three = NDArray::From({3}), hundred = NDArray::From({100}), four = NDArray::From({4});
  EXPECT_EQ(ClipGlobalNorm({&three, &four}, 2.5), 5);
  EXPECT_EQ(three.ToScalar(), 1.5f);
  EXPECT_EQ(four.ToScalar(), 2);

  const NDArray labels = NDArray::From({1, 0}, {2}), none = NDArray::From({1}, {1});
  const NDArray right = NDArray::From({0, 1, 1, 0}, {2, 2}), wrong = NDArray::From({1, 0}, {1, 2});
  metric::Accuracy accuracy;
  accuracy.Update({&labels, &none}, {&right, &wrong});
  EXPECT_EQ(accuracy.count(), 3);
  EXPECT_EQ(accuracy.sum(), 2);
  accuracy.Update(labels, right);
  EXPECT_EQ(accuracy.sum(), 4);
}

template <typename Rows>
concept PushesRowsInBraces = requires(KVStore& store, Rows rows) {
  store.PushRowSparse("t", {rows, rows});
};
static_assert(PushesRowsInBraces<RowSparse> && !PushesRowsInBraces<const RowSparse*>);

}  // namespace
}  // namespace sluice
