#include "launch/sampling_defaults.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace winnow {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

GenerationDefaults Drawn() {
  GenerationDefaults defaults;
  defaults.source = "generation_config.json";
  defaults.sample = true;
  defaults.temperature = 0.6f;
  defaults.top_k = 20;
  return defaults;
}

TEST(SamplingDefaults, AreTakenWhereNoFlagSpeaks) {
  SamplingParams sampling;
  sampling.top_k = 3;
  const auto notes = TakeSamplingDefaults(Drawn(), {.top_k = true}, &sampling);
  EXPECT_EQ(sampling.temperature, 0.6f);
  EXPECT_EQ(sampling.top_k, 3);
  EXPECT_THAT(notes, ElementsAre(HasSubstr("temperature 0.6")));
}

TEST(SamplingDefaults, DrawAtTemperatureOneWhereTheFileNamesNone) {
  GenerationDefaults defaults = Drawn();
  defaults.temperature.reset();
  SamplingParams sampling;
  TakeSamplingDefaults(defaults, {}, &sampling);
  EXPECT_EQ(sampling.temperature, 1.0f);
}

TEST(SamplingDefaults, LeaveGreedyAnswersGreedy) {
  SamplingParams sampling;
  EXPECT_THAT(TakeSamplingDefaults(Drawn(), {.temperature = true}, &sampling), IsEmpty());
  EXPECT_EQ(sampling.temperature, 0.0f);
  EXPECT_EQ(sampling.top_k, 0);
  EXPECT_THAT(TakeSamplingDefaults({}, {}, &sampling), IsEmpty());
}

// transformers applies penalties to greedy answers too.
TEST(SamplingDefaults, SayWhatWinnowDoesNotHaveAlsoOfGreedyAnswers) {
  for (const bool sample : {true, false}) {
    GenerationDefaults defaults = Drawn();
    defaults.sample = sample;
    defaults.not_supported = {"repetition_penalty 1.05", "bad_words_ids"};
    SamplingParams sampling;
    const auto notes = TakeSamplingDefaults(defaults, {.temperature = true}, &sampling);
    EXPECT_THAT(notes, ElementsAre(HasSubstr("winnow does not have repetition_penalty 1.05, bad_words_ids")));
  }
}

}  // namespace
}  // namespace winnow
