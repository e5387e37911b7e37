#include "base/version.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace winnow {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

TEST(BuildInfo, NamesWhatWasBuilt) {
  const BuildInfo& info = GetBuildInfo();
  EXPECT_THAT(std::string(info.version), MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+"));
  EXPECT_THAT(std::string(info.git_id), MatchesRegex("unknown|[0-9a-f]+|[0-9a-f]+-dirty"));
  EXPECT_FALSE(info.compiler.empty());
  EXPECT_FALSE(info.build_type.empty());
}

TEST(BuildInfo, ShowsTheFlagsThatTheExactnessContractRestsOn) {
  EXPECT_THAT(std::string(GetBuildInfo().flags), HasSubstr("-ffp-contract=off"));
}

}  // namespace
}  // namespace winnow
