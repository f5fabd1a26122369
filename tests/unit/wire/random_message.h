// Makes random valid messages: any body, any field, and often boundary values.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/rng.h"
#include "wire/messages.h"

namespace sluice::wire::testing {

class RandomMessages {
 public:
  explicit RandomMessages(uint64_t seed) : rng_(seed) {}

  // Returns a message whose body is the `index`-th alternative, with a matching payload.
  Message Make(size_t index);

 private:
  uint64_t Number();  // 0, the largest value, or a number of random width
  uint32_t Number32() { return static_cast<uint32_t>(Number()); }
  uint32_t StoreNumber() { return static_cast<uint32_t>(rng_.Below(65536)); }
  size_t Size() { return rng_.Below(4) == 0 ? 0 : rng_.Below(20); }
  std::string Text();
  double Finite();
  template <typename E>
  E Enum(E last) {
    return static_cast<E>(rng_.Below(static_cast<uint64_t>(last) + 1));
  }
  template <typename T>
  std::vector<T> List(T (RandomMessages::*make)()) {
    return Fill(std::vector<T>(Size()), make);
  }
  template <typename T>
  PartList<T> Parts(T (RandomMessages::*make)()) {
    return Fill(PartList<T>(Size()), make);
  }
  template <typename List, typename T>
  List Fill(List list, T (RandomMessages::*make)()) {
    for (T& item : list) item = (this->*make)();
    return list;
  }
  NodeInfo Node();
  KeySpec Spec();
  KeyEntry Entry();
  PartRef Ref() { return {Number32(), Number32()}; }
  PushPart MakePushPart() { return {Ref(), Number(), rng_.Chance(0.5)}; }
  PullPart MakePullPart() { return {Ref(), Number32(), Number()}; }
  RowsPart MakeRowsPart() { return {Ref(), Number32(), Number()}; }
  ValuePart MakeValuePart() { return {Ref(), Number32(), Number()}; }
  StorePart MakeStorePart() { return {Ref(), Number32(), Number()}; }
  OptimizerConfig Optimizer();
  std::map<uint32_t, uint64_t> FirstRounds();
  Body MakeBody(size_t index);
  Body MakePushOrLater(size_t index);
  Body MakeBarrierOrLater(size_t index);
  Frame Payload();

  Rng rng_;
};

}  // namespace sluice::wire::testing
