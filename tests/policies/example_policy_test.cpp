// The policy that docs/policies.md writes: the page shows the compiled file, and the policy does what the page says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "kv/keep_plan.h"
#include "policies/eviction_policy.h"

namespace winnow {

std::unique_ptr<EvictionPolicy> MakeMeanAttentionPolicy();  // of example_policy.cpp

namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string Content(const std::string& path) {
  std::ifstream file(std::string(WINNOW_SOURCE_DIR) + "/" + path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  std::ostringstream content;
  content << file.rdbuf();
  return content.str();
}

TEST(ExamplePolicy, OfTheDocsIsTheCompiledFile) {
  EXPECT_THAT(Content("docs/policies.md"),
              HasSubstr("```cpp\n" + Content("tests/policies/example_policy.cpp") + "```"));
}

TEST(ExamplePolicy, ScoresAttentionPerQueryThatCouldSeeTheSlot) {
  const auto policy = MakeMeanAttentionPolicy();
  EXPECT_EQ(policy->name(), "mean-attention");
  EXPECT_EQ(policy->observations().mass, ObservedMass::kCumulative);
  const std::vector<int32_t> positions = {0, 2, 6, 9};
  const std::vector<int64_t> mass = {100, 160, 20, 8};
  const HeadView head{.layer = 0,
                      .global_head = 0,
                      .positions = positions,
                      .mass = mass,
                      .keys = {},
                      .head_dim = 32,
                      .recent_begin = 4,
                      .tokens_seen = 10,
                      .prompt_tokens = 0,
                      .eviction_index = 0,
                      .seed = 0,
                      .choice_index = 0};
  std::vector<float> scores(4);
  policy->Score(head, scores);
  EXPECT_THAT(scores, ElementsAre(10.0f, 20.0f, 5.0f, 8.0f));  // over 10, 8, 4 and 1 queries
  EXPECT_THAT(SelectKept(positions, scores, 2, {.sink_tokens = 0, .recent_tokens = 0}), ElementsAre(0, 1));
}

}  // namespace
}  // namespace winnow
