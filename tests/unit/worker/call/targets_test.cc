#include "worker/call/targets.h"

#include <string>

#include <gtest/gtest.h>

namespace understudy::worker {
namespace {

using transport::EndpointName;

transport::Record Instance(const EndpointName& name, std::uint64_t id) {
  transport::InstanceRecord record;
  record.name = name;
  record.instance_id = id;
  record.transport_value = "subject-" + transport::HexId(id);
  return transport::EncodeInstance(record);
}

const EndpointName kGenerate{"ns", "backend", "generate"};
const EndpointName kQuery{"ns", "backend", "query"};

transport::Record Card(const EndpointName& name,
                       std::uint64_t id,
                       const std::string& display_name) {
  transport::ModelCard card;
  card.display_name = display_name;
  return transport::EncodeModel(name, id, card);
}

TEST(CallTargets, JoinInstancesWithTheirModelNames) {
  const auto found =
      JoinTargets({Instance(kQuery, 1), Instance(kGenerate, 0xb), Instance(kGenerate, 0xa)},
                  {Card(kGenerate, 0xb, "qwen"), Card(kGenerate, 0xc, "gone")});
  ASSERT_EQ(found.targets.size(), 3U);
  EXPECT_EQ(found.targets[0].instance.instance_id, 0xaU);
  EXPECT_EQ(found.targets[0].model, "");
  EXPECT_EQ(found.targets[1].instance.instance_id, 0xbU);
  EXPECT_EQ(found.targets[1].model, "qwen");
  EXPECT_EQ(found.targets[2].instance.name.endpoint, "query");
  EXPECT_TRUE(found.unreadable.empty());
}

TEST(CallTargets, SkipAndNameUnreadableRecords) {
  const auto found =
      JoinTargets({{"v1/instances/ns/backend/generate/1", "{\"type\":"}, Instance(kGenerate, 2)},
                  {{"v1/mdc/ns/backend/generate/2", "not json"}, {"odd", "{}"}});
  ASSERT_EQ(found.targets.size(), 1U);
  EXPECT_EQ(found.targets[0].model, "");
  ASSERT_EQ(found.unreadable.size(), 1U);
  EXPECT_EQ(found.unreadable[0].rfind("v1/instances/ns/backend/generate/1: ", 0), 0U)
      << found.unreadable[0];
}

TEST(CallTargets, PicksAllOfAnEndpointOrOne) {
  const auto found =
      JoinTargets({Instance(kQuery, 1), Instance(kGenerate, 2), Instance(kGenerate, 3)}, {});
  EXPECT_EQ(PickTargets(found, kGenerate, std::nullopt)->size(), 2U);
  const auto one = PickTargets(found, kGenerate, 3);
  ASSERT_TRUE(one);
  ASSERT_EQ(one->size(), 1U);
  EXPECT_EQ(one->front().instance.transport_value, "subject-3");
}

TEST(CallTargets, SaysWhatIsThereWhenNothingFits) {
  const auto found = JoinTargets({Instance(kQuery, 0xabc)}, {});
  const auto none = PickTargets(found, kGenerate, 0xdef);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Errc::kUnavailable);
  EXPECT_EQ(none.error().message,
            "no instance def of ns.backend.generate in discovery; there are: ns.backend.query abc");
  EXPECT_EQ(
      PickTargets({}, kGenerate, std::nullopt).error().message,
      "no instance of ns.backend.generate in discovery; its namespace has no instance at all");
}

}  // namespace
}  // namespace understudy::worker
