#include "launch/eval_task_answers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace winnow {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Json = nlohmann::ordered_json;

GivenAnswer Answer() {
  GivenAnswer answer{.token_ids = {5, 0, 7}, .finish_reason = FinishReason::kStop, .kv = {}, .error = OkStatus()};
  answer.kv.tokens_seen = 40;
  answer.kv.evictions = 2;
  answer.kv.kept_entries = 96;
  answer.kv.evicted_entries = 144;
  answer.kv.peak_bytes_per_rank = {4096, 8192};
  answer.kv.load.end_entries = {32, 64};
  answer.kv.load.peak_entries = {64, 96};
  return answer;
}

TEST(AnswerJson, ComesBackAsItWas) {
  const GivenAnswer back = ParseAnswer(Json::parse(AnswerJson(Answer()).dump())).value();
  EXPECT_THAT(back.token_ids, ElementsAre(5, 0, 7));
  EXPECT_EQ(back.finish_reason, FinishReason::kStop);
  EXPECT_TRUE(back.error.ok());
  EXPECT_EQ(back.kv.tokens_seen, 40);
  EXPECT_EQ(back.kv.evictions, 2);
  EXPECT_EQ(back.kv.kept_entries, 96);
  EXPECT_EQ(back.kv.evicted_entries, 144);
  EXPECT_THAT(back.kv.peak_bytes_per_rank, ElementsAre(4096, 8192));
  EXPECT_THAT(back.kv.load.peak_entries, ElementsAre(64, 96));
}

TEST(AnswerJson, CarriesTheErrorOfAnAnswer) {
  GivenAnswer failed = Answer();
  failed.finish_reason = FinishReason::kError;
  failed.error = NumericalError("a row is not finite");
  const GivenAnswer back = ParseAnswer(AnswerJson(failed)).value();
  EXPECT_EQ(back.error.code(), StatusCode::kNumerical);
  EXPECT_EQ(back.error.message(), "a row is not finite");
}

TEST(AnswerJson, IsRefusedByTheNameOfTheFieldThatMakesNoSense) {
  const auto expect_refused = [](const char* field, const Json& value) {
    Json json = AnswerJson(Answer());
    value.is_discarded() ? json.erase(field) : (json[field] = value, size_t(1));
    const auto answer = ParseAnswer(json);
    ASSERT_FALSE(answer.ok()) << field << " " << value;
    EXPECT_EQ(answer.status().code(), StatusCode::kBadFile);
    EXPECT_THAT(answer.status().message(), HasSubstr(std::string("\"") + field + "\""));
  };
  const Json nothing(Json::value_t::discarded);
  for (const char* field : {"token_ids", "finish_reason", "evictions", "kept_entries", "peak_bytes_per_rank"}) {
    expect_refused(field, nothing);
    expect_refused(field, "text");
    expect_refused(field, Json::array({1.5}));
  }
  expect_refused("finish_reason", 9);
  expect_refused("finish_reason", -1);
  expect_refused("error", "text");
  expect_refused("error", {{"code", 1}});
  for (const Json& json : {Json(), Json("text"), Json::array(), Json::object()}) EXPECT_FALSE(ParseAnswer(json).ok());
}

TEST(HashOfRequests, TellsEverySettingApart) {
  Request request;
  request.prompt = {1, 2, 3};
  request.max_tokens = 4;
  const uint64_t hash = HashOf({request});
  EXPECT_EQ(HashOf({request}), hash);
  EXPECT_NE(HashOf({request, request}), hash);
  Request other = request;
  other.sampling.temperature = 0.5f;
  EXPECT_NE(HashOf({other}), hash);
  other = request;
  other.prompt.back() = 4;
  EXPECT_NE(HashOf({other}), hash);
}

}  // namespace
}  // namespace winnow
