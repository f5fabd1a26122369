// Every public header compiles outside the tree, and the store works: prints the pulled values.
#include <iostream>

#include "all_headers.h"  // made by the test from what was installed

int main(int argc, char** argv) {
  return sluice::RunProgram(argc, argv, [] {
    const auto store = sluice::KVStore::Create("local");
    sluice::NDArray start = sluice::NDArray::From({1, 2, 3}, {3});
    sluice::NDArray gradient = sluice::NDArray::From({10, 20, 30}, {3});
    sluice::NDArray pulled({3});
    store->Init("w", start);
    store->SetOptimizer({.learning_rate = 0.5});
    store->Push("w", gradient);
    store->Pull("w", &pulled);
    for (const float value : pulled.ToVector()) std::cout << value << ' ';
    std::cout << std::endl;
  });
}
