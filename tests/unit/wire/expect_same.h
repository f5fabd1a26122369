#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "wire/messages.h"

namespace sluice::wire::testing {

// Compares all fields but the payloads, some of which are sent in frames of their own.
inline void ExpectSame(const Message& a, const Message& b) {
  EXPECT_EQ(a.job, b.job);
  EXPECT_EQ(a.sender, b.sender);
  EXPECT_EQ(a.id, b.id);
  EXPECT_EQ(a.in_reply_to, b.in_reply_to);
  EXPECT_EQ(a.trace_id, b.trace_id);
  EXPECT_EQ(a.epoch, b.epoch);
  EXPECT_TRUE(a.body == b.body) << Describe(a) << " / " << Describe(b);
  EXPECT_EQ(a.leased, b.leased);
  EXPECT_EQ(a.packed, b.packed);
}

inline std::vector<std::string> PayloadOf(const Message& message) {
  std::vector<std::string> payload;
  for (const Frame& frame : message.payload) payload.emplace_back(AsText(frame.bytes()));
  return payload;
}

}  // namespace sluice::wire::testing
