// Layers and networks of them.
//
//   nn::Sequential net;
//   net.Add("conv1", nn::Conv2D(20, 5)).Add("tanh1", nn::Activation::Tanh()).Add("fc1", nn::Dense(10));
//   net.CollectParams().Initialize({cpu(0), cpu(1)});
//   NDArray y = net(x);   // on x's context, with the parameters there
//
// Arrays are float32 (the ids of Embedding may also have an integer type); images are [batch, channels,
// height, width]. Input sizes may be left open: the first forward fills them in. For a wrong input a layer
// throws Error(kInvalidArgument), which names the layer, the shape it expects and the shape it got.
//
// Thread safety: one network may be used by one thread at a time. Operations on different contexts run in
// parallel nevertheless.
#pragma once

#include "sluice/nn/activation.h"
#include "sluice/nn/container.h"
#include "sluice/nn/conv.h"
#include "sluice/nn/dense.h"
#include "sluice/nn/dropout.h"
#include "sluice/nn/embedding.h"
#include "sluice/nn/layer.h"
#include "sluice/nn/norm.h"
#include "sluice/nn/placement.h"
#include "sluice/nn/pool.h"
#include "sluice/nn/recurrent.h"
