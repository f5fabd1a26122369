// The names of store types: those of MXNet, and what is said to others.
#include "sluice/store_type.h"

#include <gmock/gmock.h>

#include "sluice/error.h"
#include "unit/expect_error.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string Refusal(ErrorCode code, std::string_view name) {
  return ErrorOf(code, [&] { StoreType::Parse(name); });
}

TEST(StoreTypeTest, EveryNameIsOneOfSixTypes) {
  const std::pair<const char*, const char*> names[] = {{"local", "local"},
                                                       {"local_update_cpu", "local"},
                                                       {"local_allreduce_cpu", "local"},
                                                       {"device", "device"},
                                                       {"local_allreduce_device", "device"},
                                                       {"dist", "dist_sync"},
                                                       {"dist_sync", "dist_sync"},
                                                       {"DIST_Sync", "dist_sync"},
                                                       {"dist_device", "dist_device_sync"},
                                                       {"dist_sync_device", "dist_device_sync"},
                                                       {"dist_device_sync", "dist_device_sync"},
                                                       {"dist_async", "dist_async"},
                                                       {"dist_async_device", "dist_device_async"},
                                                       {"dist_device_async", "dist_device_async"}};
  for (const auto& [name, type] : names) EXPECT_EQ(StoreType::Parse(name).Name(), type) << name;
  EXPECT_TRUE(StoreType::Parse("dist_async_device").async);
  EXPECT_TRUE(StoreType::Parse("local_allreduce_device").on_devices);
  EXPECT_FALSE(StoreType::Parse("local_update_cpu").distributed);
}

TEST(StoreTypeTest, AnUnknownNameIsToldWithTheNearestOneAndTheTypes) {
  EXPECT_THAT(Refusal(ErrorCode::kInvalidArgument, "Dist_snyc"),
              AllOf(HasSubstr("no store type 'Dist_snyc' (did you mean dist_sync?)"),
                    HasSubstr("the types are local, device, nccl, dist_sync, dist_device_sync, dist_async, "
                              "dist_device_async")));
  EXPECT_THAT(Refusal(ErrorCode::kInvalidArgument, "horovod"), Not(HasSubstr("did you mean")));
  EXPECT_THAT(Refusal(ErrorCode::kInvalidArgument, ""), HasSubstr("no store type ''"));
}

TEST(StoreTypeTest, NcclIsAStoreOfOneProcess) {
  for (const char* name : {"nccl", "NCCL"}) {
    EXPECT_TRUE(StoreType::Parse(name).nccl);
    EXPECT_FALSE(StoreType::Parse(name).distributed);
  }
}

}  // namespace
}  // namespace sluice
