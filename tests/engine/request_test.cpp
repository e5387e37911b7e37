#include "engine/request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace winnow {
namespace {

using testing::HasSubstr;

EvictionSettings Streaming(int64_t budget) {
  EvictionSettings settings;
  settings.policy = "streaming-llm";
  settings.budget = budget;
  return settings;
}

void ExpectRefused(const EvictionSettings& asked, const std::string& part) {
  const auto resolved = ResolveEviction(asked, {});
  EXPECT_EQ(resolved.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(resolved.status().message(), HasSubstr(part));
}

TEST(ResolveEviction, LeavesGoodNumbersAlone) {
  const EvictionSettings settings = ResolveEviction(Streaming(64), {}).value();
  EXPECT_EQ(settings.budget, 64);
  EXPECT_EQ(settings.interval, 128);
  EXPECT_TRUE(settings.evicts());
}

TEST(ResolveEviction, APolicyThatNeverEvictsHasNoBudget) {
  EvictionSettings asked;
  EXPECT_FALSE(ResolveEviction(asked, {}).value().evicts());
  asked.budget = 64;
  EXPECT_FALSE(ResolveEviction(asked, {}).value().evicts());
}

TEST(ResolveEviction, RefusesAnUnknownPolicyByName) {
  EvictionSettings asked = Streaming(64);
  asked.policy = "streamingllm";
  ExpectRefused(asked, "streamingllm");
}

TEST(ResolveEviction, RefusesAPolicyWithoutABudget) {
  ExpectRefused(Streaming(0), "--kv-budget");
  ExpectRefused(Streaming(-1), "--kv-budget");
}

TEST(ResolveEviction, RefusesABudgetBelowTheProtectedTokens) {
  EvictionSettings asked = Streaming(35);
  ExpectRefused(asked, "35");
  asked.budget = 36;  // 4 sinks and 32 recent tokens
  EXPECT_TRUE(ResolveEviction(asked, {}).ok());
}

TEST(ResolveEviction, RefusesAnIntervalBelowOneAndNegativeProtection) {
  EvictionSettings asked = Streaming(64);
  asked.interval = 0;
  ExpectRefused(asked, "--kv-interval");
  asked.interval = 1;
  EXPECT_TRUE(ResolveEviction(asked, {}).ok());
  asked.sink_tokens = -1;
  ExpectRefused(asked, "-1");
  asked.sink_tokens = 0;
  asked.recent_tokens = -2;
  ExpectRefused(asked, "-2");
}

TEST(ResolveEviction, SnapKvNeedsRecentTokensThatVote) {
  EvictionSettings asked = Streaming(64);
  asked.policy = "snapkv";
  asked.recent_tokens = 0;
  ExpectRefused(asked, "--kv-recent-tokens");
  asked.recent_tokens = 1;
  EXPECT_TRUE(ResolveEviction(asked, {}).ok());
}

TEST(FinishReason, HasTheNamesOfTheApi) {
  EXPECT_EQ(Name(FinishReason::kStop), "stop");
  EXPECT_EQ(Name(FinishReason::kLength), "length");
  EXPECT_EQ(Name(FinishReason::kError), "error");
}

}  // namespace
}  // namespace winnow
