#include "launch/eval_list_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace winnow {
namespace {

using testing::HasSubstr;

TEST(EvalListFlags, TakePoliciesThatEvictAndBudgetsInRange) {
  EXPECT_TRUE(CheckPoliciesAndBudgets({"h2o", "golden"}, {1, 256}, {}).ok());
  EXPECT_TRUE(CheckPoliciesAndBudgets({"random"}, {}, {0.5, 0.25}).ok());
}

TEST(EvalListFlags, RefuseWhatStandsTwice) {
  EXPECT_THAT(CheckPoliciesAndBudgets({"h2o", "random", "h2o"}, {1}, {}).message(),
              HasSubstr("--policies: h2o is given twice"));
  EXPECT_THAT(CheckPoliciesAndBudgets({"h2o"}, {64, 64}, {}).message(), HasSubstr("--kv-budget: 64 is given twice"));
  EXPECT_THAT(CheckPoliciesAndBudgets({"h2o"}, {}, {0.2, 0.2}).message(), HasSubstr("--kv-ratio: 0.2 is given twice"));
  EXPECT_THAT(CheckListedOnce("--depths", std::vector<int64_t>{0, 50, 0}).message(),
              HasSubstr("--depths: 0 is given twice"));
}

TEST(EvalListFlags, RefuseNumbersOutOfRangeAndPoliciesThatDoNotEvict) {
  EXPECT_THAT(CheckPoliciesAndBudgets({"h2o"}, {0}, {}).message(),
              HasSubstr("--kv-budget: expected 1 or more, found 0"));
  for (double ratio : {0.0, 1.0, -0.5}) {
    EXPECT_THAT(CheckPoliciesAndBudgets({"h2o"}, {}, {ratio}).message(), HasSubstr("--kv-ratio: expected above 0"));
  }
  EXPECT_THAT(CheckPoliciesAndBudgets({"full"}, {1}, {}).message(), HasSubstr("full never evicts"));
  EXPECT_THAT(CheckPoliciesAndBudgets({"nothing"}, {1}, {}).message(), HasSubstr("found \"nothing\""));
}

}  // namespace
}  // namespace winnow
