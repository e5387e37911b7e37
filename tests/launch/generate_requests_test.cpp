#include "launch/generate_requests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/temporary_path.h"
#include "tests/support/tiny_model.h"

namespace winnow {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class GenerateRequests : public testing::Test {
 protected:
  void TearDown() override {
    for (const std::string& path : files_) std::filesystem::remove(path);
  }
  std::string WriteFile(const std::string& content) {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    const std::string name = std::string("requests_") + test->name() + std::to_string(files_.size());
    files_.push_back(TemporaryPath(name).string());
    std::ofstream(files_.back(), std::ios::binary) << content;
    return files_.back();
  }
  static GenerateOptions WithPrompt(const std::string& prompt) {
    GenerateOptions options;
    options.prompt = prompt;
    options.seed = 5;
    return options;
  }
  GenerateOptions WithLines(const std::string& content) {
    GenerateOptions options;
    options.prompts_file = WriteFile(content);
    options.seed = 5;
    return options;
  }
  Result<PreparedRequests> Prepare(const GenerateOptions& options) {
    return PrepareRequests(options, model_.config, tokenizer_);
  }
  void ExpectRefused(const GenerateOptions& options, const std::vector<std::string>& parts) {
    const Status status = Prepare(options).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    for (const std::string& part : parts) EXPECT_THAT(status.message(), HasSubstr(part));
  }
  // The only line of a file has this field wrong.
  void ExpectLineRefused(const std::string& fields, const std::string& part) {
    ExpectRefused(WithLines("{\"prompt\": \"hi\", " + fields + "}\n"), {"line 1", part});
  }

  TinyModel model_{{.num_layers = 1, .context = 64}};
  Tokenizer tokenizer_ = Tokenizer::FromGguf(model_.file).value();
  std::vector<std::string> files_;
};

TEST_F(GenerateRequests, APromptBecomesOneRequestWithTheFlagsNumbers) {
  GenerateOptions options = WithPrompt("hello");
  options.max_tokens = 9;
  options.sampling.temperature = 0.5f;
  const PreparedRequests prepared = Prepare(options).value();
  ASSERT_EQ(prepared.requests.size(), 1u);
  const Request& request = prepared.requests[0];
  EXPECT_EQ(request.id, 0);
  EXPECT_EQ(request.prompt, tokenizer_.Encode("hello").value());
  EXPECT_EQ(request.max_tokens, 9);
  EXPECT_EQ(request.sampling.temperature, 0.5f);
  EXPECT_EQ(request.sampling.seed, 5u);
  EXPECT_EQ(request.stop_token_ids, tokenizer_.eos_ids());
  EXPECT_EQ(prepared.context, 64);
  EXPECT_TRUE(prepared.notes.empty());
}

TEST_F(GenerateRequests, AFileIsOnePromptWithItsLineEnds) {
  GenerateOptions options = WithPrompt("");
  options.prompt.reset();
  options.prompt_file = WriteFile("one\ntwo\n");
  EXPECT_EQ(Prepare(options).value().requests[0].prompt, tokenizer_.Encode("one\ntwo\n").value());
}

TEST_F(GenerateRequests, LinesBringTheirOwnNumbersOverTheFlags) {
  GenerateOptions options = WithLines(
      "{\"prompt\": \"a\"}\n"
      "\n"
      "{\"prompt\": \"b\", \"max_tokens\": 3, \"temperature\": 1, \"top_k\": 4, \"top_p\": 0.5, \"min_p\": 0.25,"
      " \"seed\": 18446744073709551615, \"ignore_eos\": true, \"kv_eviction\": \"random\", \"kv_budget\": 20,"
      " \"kv_interval\": 6, \"kv_sink_tokens\": 2, \"kv_recent_tokens\": 7}");
  options.max_tokens = 11;
  const auto requests = Prepare(options).value().requests;
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_EQ(requests[0].max_tokens, 11);
  EXPECT_EQ(requests[0].sampling.seed, 5u);
  EXPECT_FALSE(requests[0].eviction.evicts());
  const Request& own = requests[1];
  EXPECT_EQ(own.id, 1);
  EXPECT_EQ(own.max_tokens, 3);
  EXPECT_EQ(own.sampling.temperature, 1.0f);
  EXPECT_EQ(own.sampling.top_k, 4);
  EXPECT_EQ(own.sampling.top_p, 0.5f);
  EXPECT_EQ(own.sampling.min_p, 0.25f);
  EXPECT_EQ(own.sampling.seed, ~uint64_t(0));
  EXPECT_TRUE(own.stop_token_ids.empty());
  EXPECT_EQ(own.eviction.policy, "random");
  EXPECT_EQ(own.eviction.budget, 20);
  EXPECT_EQ(own.eviction.interval, 6);
  EXPECT_EQ(own.eviction.sink_tokens, 2);
  EXPECT_EQ(own.eviction.recent_tokens, 7);
}

TEST_F(GenerateRequests, APromptMayBeAListOfTokenIds) {
  const auto requests = Prepare(WithLines("{\"prompt\": [3, 1, 3]}\n{\"prompt\": \"a\"}\n")).value().requests;
  EXPECT_EQ(requests[0].prompt, (std::vector<int32_t>{3, 1, 3}));
  EXPECT_EQ(requests[1].prompt, tokenizer_.Encode("a").value());
  for (const auto& [ids, part] : {std::pair("[]", "the prompt is empty"),
                                  {"[-1]", "-1"},
                                  {"[1, 1000000]", "1000000"},
                                  {"[1.5]", "whole number"},
                                  {"[1, \"a\"]", "whole number"},
                                  {"[4294967296]", "range"},
                                  {"[[1]]", "whole number"},
                                  {"{}", "expected text"}}) {
    ExpectRefused(WithLines("{\"prompt\": " + std::string(ids) + "}\n"), {"line 1", part});
  }
}

TEST_F(GenerateRequests, AnAnswerEndsWhereTheContextIsFullAndANoteSaysSo) {
  GenerateOptions options = WithPrompt(std::string(60, 'x'));
  options.max_tokens = 10;
  const PreparedRequests prepared = Prepare(options).value();
  EXPECT_EQ(prepared.requests[0].max_tokens, 4);
  ASSERT_EQ(prepared.notes.size(), 1u);
  EXPECT_THAT(prepared.notes[0], AllOf(HasSubstr("after 4 tokens"), HasSubstr("64")));
}

TEST_F(GenerateRequests, APromptAsLongAsTheContextIsRefusedWithTheNumbers) {
  ExpectRefused(WithPrompt(std::string(64, 'x')), {"64 tokens", "--max-model-len"});
  GenerateOptions longer = WithPrompt(std::string(64, 'x'));
  longer.max_model_len = 100;
  const PreparedRequests prepared = Prepare(longer).value();
  EXPECT_EQ(prepared.context, 100);
  EXPECT_THAT(prepared.notes.at(0), HasSubstr("above the model's context of 64"));
}

TEST_F(GenerateRequests, ABudgetForPolicyFullIsNotedAsUnused) {
  GenerateOptions options = WithPrompt("hello");
  options.max_tokens = 4;
  options.eviction.budget = 40;
  options.eviction_flags = {"--kv-budget"};
  EXPECT_THAT(Prepare(options).value().notes.at(0), HasSubstr("policy full keeps everything: --kv-budget is not used"));
}

TEST_F(GenerateRequests, FlagsThatSomeLineUsesAndFieldsThatTheirLineDoesNotAreToldApart) {
  GenerateOptions options = WithLines(
      "{\"prompt\": \"a\", \"kv_eviction\": \"full\", \"kv_scope\": \"layer\"}\n"
      "{\"prompt\": \"b\"}\n");
  options.max_tokens = 4;
  options.eviction = {.policy = "snapkv-prefill", .budget = 40, .interval = 32};
  options.eviction_flags = {"--kv-budget", "--kv-interval"};
  EXPECT_THAT(Prepare(options).value().notes, ElementsAre("policy full keeps everything: kv_scope is not used",
                                                          "policy full keeps everything: --kv-interval is not used"));
}

TEST_F(GenerateRequests, ALinesBudgetReplacesTheFlagsInAnyForm) {
  // 1 layer of 3 KV heads, 128 bytes an entry.
  GenerateOptions options = WithLines(
      "{\"prompt\": \"a\"}\n"
      "{\"prompt\": \"b\", \"kv_budget_bytes\": 19200}\n"
      "{\"prompt\": \"ccccccccccccccccccccccccccccccccccccccccccccccccccccc\", \"kv_ratio\": 0.9}\n");
  options.max_tokens = 4;
  options.eviction = {.policy = "random", .budget = 40};
  const auto requests = Prepare(options).value().requests;
  EXPECT_EQ(requests[0].eviction.budget, 40);
  EXPECT_FALSE(requests[0].eviction.budget_bytes);
  EXPECT_EQ(requests[1].eviction.budget, 50);
  EXPECT_EQ(requests[1].eviction.larger_heads, 0);
  EXPECT_EQ(requests[2].eviction.budget, 47);  // 53 tokens of 3 heads: 143 entries
  EXPECT_EQ(requests[2].eviction.larger_heads, 2);
}

TEST_F(GenerateRequests, WithoutASeedOneIsDrawnForTheWholeRun) {
  GenerateOptions options = WithLines("{\"prompt\": \"a\"}\n{\"prompt\": \"b\"}\n");
  options.seed.reset();
  const auto first = Prepare(options).value().requests, second = Prepare(options).value().requests;
  EXPECT_EQ(first[0].sampling.seed, first[1].sampling.seed);
  EXPECT_NE(first[0].sampling.seed, second[0].sampling.seed);
  EXPECT_LT(first[0].sampling.seed, uint64_t(1) << 53);
}

TEST_F(GenerateRequests, EmptyAndUnreadablePromptsAreRefused) {
  ExpectRefused(WithPrompt(""), {"--prompt", "empty"});
  ExpectRefused(WithPrompt("caf\xe9"), {"--prompt", "UTF-8"});
  ExpectRefused(WithLines(""), {"holds no prompt"});
  ExpectRefused(WithLines("\n  \n"), {"holds no prompt"});
  GenerateOptions options;
  options.prompt_file = "no/such/file.txt";
  ExpectRefused(options, {"no/such/file.txt"});
}

TEST_F(GenerateRequests, LinesThatAreNoRequestAreRefusedByNumber) {
  ExpectRefused(WithLines("{\"prompt\": \"a\"}\n{\"prompt\": \n"), {"line 2", "JSON"});
  ExpectRefused(WithLines("[\"a\"]\n"), {"line 1", "JSON object"});
  ExpectRefused(WithLines("{\"max_tokens\": 3}\n"), {"line 1", "\"prompt\""});
  ExpectRefused(WithLines("{\"prompt\": 7}\n"), {"line 1", "prompt", "7"});
}

TEST_F(GenerateRequests, NestingOfAnyDepthIsRefusedAndNotFollowed) {
  for (const size_t depth : {size_t(1), size_t(200000), size_t(1000000)}) {
    const std::string open(depth, '['), close(depth, ']');
    std::string objects;
    for (size_t i = 0; i < depth; ++i) objects += "{\"a\":";
    ExpectLineRefused("\"max_tokens\": " + open + close,
                      "\"max_tokens\": expected a whole number in range, found an array");
    ExpectLineRefused("\"prompts\": " + open + close, "unknown field");
    ExpectLineRefused("\"top_p\": " + objects + "1" + std::string(depth, '}'), "found an object");
    ExpectLineRefused("\"top_p\": " + open, "not valid JSON");
    ExpectRefused(WithLines(open + close), {"line 1", "JSON object"});
    ExpectRefused(WithLines(objects), {"line 1", "not valid JSON"});
  }
}

TEST_F(GenerateRequests, AFieldGivenTwiceIsRefusedByName) {
  ExpectLineRefused("\"max_tokens\": 3, \"top_k\": 1, \"max_tokens\": 3", "field \"max_tokens\": given twice");
  ExpectRefused(WithLines("{\"prompt\": \"a\", \"prompt\": \"b\"}"), {"line 1", "\"prompt\"", "twice"});
  ExpectLineRefused("\"seed\": {\"a\": 1, \"a\": 2}", "found an object");
}

TEST_F(GenerateRequests, MessagesStayOneShortLine) {
  const std::string e_acute = "\xc3\xa9";
  std::string text = "x\\n\\u001b";
  for (int i = 0; i < 100000; ++i) text += e_acute;
  const std::string quoted = '"' + text + '"';
  for (const std::string& fields :
       {"\"seed\": " + quoted, "\"kv_eviction\": " + quoted, "\"kv_scope\": " + quoted, quoted + ": 1"}) {
    const Status status = Prepare(WithLines("{\"prompt\": \"hi\", " + fields + "}")).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_LT(status.message().size(), 400u);
    EXPECT_THAT(status.message(), AllOf(HasSubstr("x\\n\\u001b" + e_acute), HasSubstr(e_acute + "...")));
  }
}

TEST_F(GenerateRequests, FieldsOfTheWrongKindOrRangeAreRefusedByName) {
  ExpectLineRefused("\"max_tokens\": \"9\"", "max_tokens");
  ExpectLineRefused("\"max_tokens\": 0", "max_tokens");
  ExpectLineRefused("\"max_tokens\": 1.5", "max_tokens");
  ExpectLineRefused("\"max_tokens\": 18446744073709551615", "max_tokens");
  ExpectLineRefused("\"top_k\": 3000000000", "top_k");
  ExpectLineRefused("\"top_k\": -1", "top_k");
  ExpectLineRefused("\"seed\": -1", "seed");
  ExpectLineRefused("\"temperature\": -0.5", "temperature");
  ExpectLineRefused("\"temperature\": 1e300", "temperature");
  ExpectLineRefused("\"temperature\": null", "temperature");
  ExpectLineRefused("\"top_p\": 0", "top_p");
  ExpectLineRefused("\"ignore_eos\": 1", "ignore_eos");
  ExpectLineRefused("\"kv_eviction\": \"nothing\"", "nothing");
  ExpectLineRefused("\"kv_eviction\": \"random\"", "budget");
  ExpectLineRefused("\"kv_eviction\": \"random\", \"kv_budget\": 10", "10");
  ExpectLineRefused("\"kv_eviction\": \"random\", \"kv_ratio\": 1.5", "--kv-ratio");
  ExpectLineRefused("\"kv_ratio\": \"half\"", "expected a number");
  ExpectLineRefused("\"kv_protect_prompt\": 1", "expected true or false");
  ExpectLineRefused("\"kv_ratio\": 0.5, \"kv_budget_bytes\": 9", "kv_ratio and kv_budget_bytes: expected one budget");
  ExpectLineRefused("\"kv_scope\": \"token\"", "head, layer or sequence");
  ExpectLineRefused("\"kv_scope\": 3", "expected text");
  ExpectLineRefused("\"max_token\": 3", "unknown field");
}

}  // namespace
}  // namespace winnow
