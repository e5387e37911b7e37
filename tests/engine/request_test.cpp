#include "engine/request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

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

TEST(ResolveEviction, APolicyOfTheFutureNeedsATextThatIsKnownToItsEnd) {
  EvictionSettings asked{.policy = "golden", .budget = 64};
  ExpectRefused(asked, "policy golden looks at the attention of what is still to come");
  ExpectRefused(asked, "winnow eval loss");
  EXPECT_EQ(ResolveEviction(asked, {.has_future = true}).value().recent_tokens, 32) << "as asked";
  asked.scope = EvictionScope::kLayer;
  EXPECT_FALSE(ResolveEviction(asked, {.has_future = true}).ok());
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

// 3 layers of 4 KV heads, 256 bytes an entry.
const EvictionContext kContext{.prompt_tokens = 100, .max_tokens = 4000, .shape = {3, 4, 256}};

EvictionSettings InBytes(int64_t bytes) {
  EvictionSettings settings = Streaming(0);
  settings.budget_bytes = bytes;
  return settings;
}

EvictionSettings InRatio(double ratio) {
  EvictionSettings settings = Streaming(0);
  settings.budget_ratio = ratio;
  return settings;
}

void ExpectRefusedInContext(const EvictionSettings& asked, const std::vector<std::string>& parts) {
  const auto resolved = ResolveEviction(asked, kContext);
  EXPECT_EQ(resolved.status().code(), StatusCode::kInvalidArgument);
  for (const std::string& part : parts) EXPECT_THAT(resolved.status().message(), HasSubstr(part));
}

TEST(ResolveEviction, BytesAreSpentToTheLastEntryOverAllHeads) {
  const EvictionSettings settings = ResolveEviction(InBytes(256 * (12 * 50 + 7) + 255), kContext).value();
  EXPECT_EQ(settings.budget, 50);
  EXPECT_EQ(settings.larger_heads, 7);
  EXPECT_EQ(settings.head_budgets().TotalEntries(3), 12 * 50 + 7);
  EXPECT_EQ(settings.head_budgets().BudgetOf(1, 2), 51);
  EXPECT_EQ(settings.head_budgets().BudgetOf(1, 3), 50);
}

TEST(ResolveEviction, SharedSetsLeaveLessThanOneSetUnspent) {
  EvictionSettings asked = InBytes(256 * (12 * 50 + 7));
  asked.scope = EvictionScope::kLayer;
  EXPECT_EQ(ResolveEviction(asked, kContext).value().larger_heads, 4);
  asked.scope = EvictionScope::kSequence;
  EXPECT_EQ(ResolveEviction(asked, kContext).value().larger_heads, 0);
}

TEST(ResolveEviction, ARatioIsOfThePromptAndStaysSoInAReplay) {
  const EvictionSettings settings = ResolveEviction(InRatio(0.505), kContext).value();
  EXPECT_EQ(settings.budget, 50);
  EXPECT_EQ(settings.larger_heads, 6);
  EXPECT_EQ(settings.budget_ratio, 0.505);
  const EvictionSettings again = ResolveEviction(settings, kContext).value();
  EXPECT_EQ(again.budget, settings.budget);
  EXPECT_EQ(again.larger_heads, settings.larger_heads);
}

TEST(ResolveEviction, RefusesRatiosAndBytesThatAreNoBudget) {
  for (double ratio :
       {0.0, -0.5, 1.001, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    ExpectRefusedInContext(InRatio(ratio), {"--kv-ratio", "more than 0 and at most 1"});
  }
  for (int64_t bytes : {int64_t(0), int64_t(-1)})
    ExpectRefusedInContext(InBytes(bytes), {"--kv-budget-bytes", "1 or more"});
  ExpectRefusedInContext(InRatio(0.009), {"--kv-ratio 0.009", "12 KV heads", "found room for 10"});
  ExpectRefusedInContext(InBytes(256 * 12 - 1), {"--kv-budget-bytes 3071", "12 entries of 256 bytes", "room for 11"});
  ExpectRefusedInContext(InRatio(0.2), {"--kv-ratio 0.2 (20 tokens per KV head)", "4 sink + 32 recent"});
  EvictionSettings both = InRatio(0.5);
  both.budget_bytes = 100000;
  ExpectRefusedInContext(both, {"--kv-ratio", "--kv-budget-bytes"});
  // Also where nothing is evicted.
  EvictionSettings full;
  full.budget_ratio = 2;
  ExpectRefusedInContext(full, {"--kv-ratio"});
}

TEST(ResolveEviction, RefusesABudgetThatTheTextCannotReach) {
  ExpectRefusedInContext(Streaming(4001), {"--kv-budget 4001", "4000"});
  EXPECT_TRUE(ResolveEviction(Streaming(4000), kContext).ok());
  ExpectRefusedInContext(InBytes(std::numeric_limits<int64_t>::max()),
                         {"--kv-budget-bytes 9223372036854775807", "4000"});
  EXPECT_EQ(ResolveEviction(InBytes(int64_t(1) << 50), {.shape = {1, 1, 4}}).status().code(),
            StatusCode::kInvalidArgument);  // more than positions of 32 bits
}

TEST(ResolveEviction, AProtectedPromptMustFitWithTheRecentTokens) {
  EvictionSettings asked = Streaming(131);
  asked.protect_prompt = true;
  ExpectRefusedInContext(asked, {"--kv-budget 131", "100 prompt + 32 recent"});
  asked.budget = 132;
  EXPECT_TRUE(ResolveEviction(asked, kContext).ok());
}

TEST(FinishReason, HasTheNamesOfTheApi) {
  EXPECT_EQ(Name(FinishReason::kStop), "stop");
  EXPECT_EQ(Name(FinishReason::kLength), "length");
  EXPECT_EQ(Name(FinishReason::kError), "error");
}

}  // namespace
}  // namespace winnow
