#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>

#include "launch/eval_loss_options.h"
#include "launch/generate_options.h"

namespace winnow {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

EvalLossOptions ParseEvalLoss(const std::string& flags) {
  EvalLossOptions options;
  CLI::App app;
  AddEvalLossFlags(app, &options);
  app.parse("model.gguf --text a.txt --policies snapkv " + flags);
  return options;
}

GenerateOptions ParseGenerate(const std::string& flags) {
  GenerateOptions options;
  CLI::App app;
  AddGenerateFlags(app, &options);
  app.parse("model.gguf --prompt a " + flags);
  return options;
}

// What the parser says of flags that it refuses; empty if it takes them.
template <class Parse>
std::string Refusal(Parse parse, const std::string& flags) {
  try {
    parse(flags);
  } catch (const CLI::ParseError& error) {
    return error.what();
  }
  return "";
}

TEST(Flags, NumbersInListsAndOptionGroupsAreTakenAsWritten) {
  EXPECT_THAT(ParseEvalLoss("--kv-budget 64,128").budgets, ElementsAre(64, 128));
  for (const char* text : {"010", "64,010", "99999999999999999999", "1.5", "x"}) {
    EXPECT_THAT(Refusal(ParseEvalLoss, std::string("--kv-budget ") + text), HasSubstr("--kv-budget")) << text;
  }
}

TEST(Flags, SeedsThatWouldWrapOrBeReadAsOctalAreRefusedByEverySubCommand) {
  EXPECT_EQ(ParseEvalLoss("--kv-budget 64 --seed 18446744073709551615").seed, 18446744073709551615u);
  EXPECT_EQ(ParseGenerate("--seed 7").seed, 7u);
  for (const char* seed : {"-1", "010", "18446744073709551616"}) {
    const std::string flag = std::string(" --seed ") + seed;
    EXPECT_THAT(Refusal(ParseEvalLoss, "--kv-budget 64" + flag), HasSubstr("expected a whole number from 0")) << seed;
    EXPECT_THAT(Refusal(ParseGenerate, flag), HasSubstr("expected a whole number from 0")) << seed;
  }
}

TEST(Flags, AnUnknownScopeOrAllocationNamesTheKnownOnes) {
  EXPECT_THAT(Refusal(ParseGenerate, "--kv-scope page"), HasSubstr("expected head, layer or sequence"));
  EXPECT_THAT(Refusal(ParseEvalLoss, "--kv-budget 64 --kv-allocation page"),
              HasSubstr("expected head, layer or sequence"));
}

TEST(Flags, EvaluationTakesOneFormOfBudget) {
  EXPECT_THAT(Refusal(ParseEvalLoss, "--kv-budget 64 --kv-ratio 0.5"), HasSubstr("--kv-budget"));
  EXPECT_THAT(Refusal(ParseEvalLoss, ""), HasSubstr("--kv-budget"));
}

}  // namespace
}  // namespace winnow
