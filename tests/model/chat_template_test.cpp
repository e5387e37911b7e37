#include "model/chat_template/chat_template.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <random>

#include "tests/model/golden_files.h"

namespace winnow {
namespace {

using nlohmann::ordered_json;
using testing::HasSubstr;

std::tm UtcTime(std::time_t seconds) {
  std::tm time{};
  gmtime_r(&seconds, &time);
  return time;
}

Result<RenderedChat> Render(const std::string& source, const ChatInput& input = {}, const TemplateLimits& limits = {}) {
  WINNOW_ASSIGN_OR_RETURN(const ChatTemplate chat_template,
                          ChatTemplate::Load(source, {.bos_token = "<s>", .eos_token = "</s>"}, limits));
  return chat_template.Render(input, UtcTime(0));
}

std::string ErrorOf(const std::string& source, const ChatInput& input = {}, const TemplateLimits& limits = {}) {
  const auto chat = Render(source, input, limits);
  return chat.ok() ? "no error: " + chat->text : chat.status().message();
}

ChatInput InputOf(const ordered_json& json) {
  ChatInput input;
  input.messages = json.at("messages");
  input.tools = json.value("tools", ordered_json());
  input.documents = json.value("documents", ordered_json());
  input.add_generation_prompt = json.value("add_generation_prompt", true);
  input.more = json.value("more", ordered_json::object());
  return input;
}

TEST(ChatTemplate, RendersWhatPythonsJinjaRendersAndRefusesWhatItRefuses) {
  const ordered_json golden = ordered_json::parse(ReadGolden("chat_templates.json"));
  const TemplateTokens tokens{.bos_token = golden["tokens"]["bos_token"].get<std::string>(),
                              .eos_token = golden["tokens"]["eos_token"].get<std::string>()};
  const std::tm now = UtcTime(golden["now"].get<std::time_t>());
  for (const ordered_json& one : golden["cases"]) {
    SCOPED_TRACE(one["name"].get<std::string>());
    const bool is_chat = one.contains("chat");
    const std::string source =
        (is_chat ? golden["templates"][one["template"].get<std::string>()] : one["source"]).get<std::string>();
    const auto chat_template = ChatTemplate::Load(source, tokens);
    if (one.value("error", "") == "load_error") {
      ASSERT_FALSE(chat_template.ok());
      EXPECT_EQ(chat_template.status().code(), StatusCode::kBadFile);
      EXPECT_THAT(chat_template.status().message(), HasSubstr("line "));
      continue;
    }
    ASSERT_TRUE(chat_template.ok()) << chat_template.status().message();
    const ordered_json& input = is_chat ? golden["chats"][one["chat"].get<std::string>()] : golden["small"];
    const auto chat = chat_template->Render(InputOf(input), now);
    if (one.contains("error")) {
      ASSERT_FALSE(chat.ok()) << chat->text;
      EXPECT_EQ(chat.status().code(), StatusCode::kInvalidArgument);
    } else {
      ASSERT_TRUE(chat.ok()) << chat.status().message();
      EXPECT_EQ(chat->text, one["text"].get<std::string>());
    }
  }
}

TEST(ChatTemplate, SaysLineAndConstructOfWhatIsNotSupportedWhenLoading) {
  EXPECT_EQ(ErrorOf("a\n{{ x | wordwrap }}"), "chat template: line 2: filter 'wordwrap' is not supported");
  EXPECT_EQ(ErrorOf("{% if x is\n divisible %}{% endif %}"),
            "chat template: line 1: test 'divisible' is not supported");
  EXPECT_EQ(ErrorOf("\n\n{% include 'x' %}"), "chat template: line 3: tag 'include' is not supported here");
  EXPECT_EQ(ErrorOf("{{ x.encode('utf-8') }}"), "chat template: line 1: method '.encode()' is not supported");
  EXPECT_EQ(ErrorOf("{{ f(*x) }}"), "chat template: line 1: arguments unpacked by * are not supported");
  EXPECT_EQ(ErrorOf("{% for x in y recursive %}{% endfor %}"),
            "chat template: line 1: recursive loops are not supported");
  EXPECT_EQ(ErrorOf("{% if x %}\n{% for y in x %}\n"),
            "chat template: line 2: expected {% endfor %}, found the end of the template");
}

TEST(ChatTemplate, RefusesNestingAndSizeBeyondItsLimitsWhenLoading) {
  const auto repeat = [](const std::string& text, int count) {
    std::string all;
    for (int i = 0; i < count; ++i) all += text;
    return all;
  };
  EXPECT_THAT(ErrorOf("{{ " + repeat("(", 200) + "1" + repeat(")", 200) + " }}"), HasSubstr("nested deeper than 100"));
  EXPECT_THAT(ErrorOf("{{ " + repeat("-", 5000) + "1 }}"), HasSubstr("nested deeper than 100"));
  EXPECT_THAT(ErrorOf("{{ " + repeat("not ", 5000) + "1 }}"), HasSubstr("nested deeper than 100"));
  EXPECT_THAT(ErrorOf("{{ 1" + repeat(" + 1", 5000) + " }}"), HasSubstr("expression deeper than 200"));
  EXPECT_THAT(ErrorOf("{{ x" + repeat(".x", 5000) + " }}"), HasSubstr("expression deeper than 200"));
  EXPECT_THAT(ErrorOf(repeat("{% if 1 %}", 5000)), HasSubstr("nested deeper than 100"));
  EXPECT_THAT(ErrorOf(repeat("{{ 1 }}", 1 << 18)), HasSubstr("expected at most 1048576 bytes"));
  EXPECT_THAT(ErrorOf("\xff"), HasSubstr("UTF-8"));
}

TEST(ChatTemplate, EndsTemplatesThatRunTooLongOrGrowTooLarge) {
  const TemplateLimits small{.max_steps = 10'000};
  EXPECT_THAT(ErrorOf("{% for a in range(1000) %}{% for b in range(1000) %}{% endfor %}{% endfor %}", {}, small),
              HasSubstr("more than 10000 steps"));
  EXPECT_THAT(ErrorOf("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"), HasSubstr("calls and blocks deeper than"));
  EXPECT_THAT(ErrorOf("{% set n = namespace(x='aa') %}{% for i in range(99) %}{% set n.x = n.x + n.x %}{% endfor %}"),
              HasSubstr("text of more than 16777216 bytes"));
  EXPECT_THAT(ErrorOf("{{ 'a' * 99999999999 }}"), HasSubstr("text of more than"));
  EXPECT_THAT(ErrorOf("{% set n = namespace(x=[1]) %}{% for i in range(99) %}{% set n.x = n.x + n.x %}{% endfor %}"),
              HasSubstr("expected at most 1048576 values"));
  EXPECT_THAT(ErrorOf("{% set n = namespace(x=[]) %}{% for i in range(999) %}{% set n.x = [n.x] %}{% endfor %}"),
              HasSubstr("expected at most 100 lists and mappings inside each other"));
  EXPECT_THAT(ErrorOf("{% set n = namespace(x=1) %}{% for i in range(99) %}{% set n.x = [n.x, n.x] %}{% endfor %}"),
              HasSubstr("expected at most 1048576 values"));
  EXPECT_THAT(ErrorOf("{{ '%999999999d' % 1 }}"), HasSubstr("at most 10000"));
  EXPECT_THAT(ErrorOf("{{ 'x' | center(999999999999) }}"), HasSubstr("smaller width"));
}

TEST(ChatTemplate, SaysTheLineAndTheTemplatesOwnWordsWhereItRefuses) {
  EXPECT_EQ(ErrorOf("a\n{{ raise_exception('roles must ' ~ 'alternate') }}"),
            "chat template, line 2: the template refuses: roles must alternate");
  EXPECT_EQ(ErrorOf("\n\n{% if x.y %}{% endif %}"), "chat template, line 3: 'x' is undefined");
  ChatInput input;
  input.messages = ordered_json::object();
  EXPECT_THAT(ErrorOf("a", input), HasSubstr("expected messages to be an array"));
  input.messages = ordered_json::array({"\xff"});
  EXPECT_THAT(ErrorOf("a", input), HasSubstr("UTF-8"));
  input.messages = ordered_json::array();
  input.more = {{"messages", 1}};
  EXPECT_THAT(ErrorOf("a", input), HasSubstr("given twice"));
}

// The parts of the text that came from the conversation.
std::vector<std::string> Marked(const std::string& source, const std::string& content) {
  ChatInput input;
  input.messages = {{{"role", "user"}, {"content", content}}};
  const auto chat = Render(source, input);
  WINNOW_CHECK(chat.ok());
  std::vector<std::string> parts;
  for (const TextSpan& span : chat->conversation) parts.push_back(chat->text.substr(span.begin, span.end - span.begin));
  return parts;
}

TEST(ChatTemplate, KnowsWhatCameFromTheConversationWhateverTheTemplateDoesToIt) {
  using testing::ElementsAre;
  const std::string content = "{% set c = messages[0].content %}";
  EXPECT_THAT(Marked(content + "<{{ c }}>", "hi"), ElementsAre("hi"));
  EXPECT_THAT(Marked("<|{{ messages[0].role }}|>", "hi"), ElementsAre());
  EXPECT_THAT(Marked(content + "{{ '<' + c.strip() + '|' ~ c | upper ~ '>' }}", " hi "), ElementsAre("hi", " HI "));
  EXPECT_THAT(Marked(content + "{{ c.split('|') | join('|') }}", "a|b"), ElementsAre("a", "b"));
  EXPECT_THAT(Marked(content + "{{ c | tojson }}", "a\"b"), ElementsAre("a\\\"b"));
  EXPECT_THAT(Marked(content + "{{ c[::-1] }}{{ c[1:] }}", "abc"), ElementsAre("cbabc"));
  EXPECT_THAT(Marked(content + "{{ c.replace('b', '<x>') }}", "abc"), ElementsAre("a", "c"));
  EXPECT_THAT(Marked(content + "{{ '<{}>'.format(c) }}{{ '<%s>' % c }}", "x"), ElementsAre("x", "x"));
  EXPECT_THAT(Marked(content + "{{ [c, 'y'] }}", "x"), ElementsAre("x"));
  EXPECT_THAT(Marked(content + "{{ c | e }}", "<"), ElementsAre("&lt;"));
  EXPECT_THAT(Marked(content + "{{ c | list | join }}{{ c | reverse }}", "xy"), ElementsAre("xyyx"));
  EXPECT_THAT(Marked("{% set x %}a{{ messages[0].content }}b{% endset %}{{ x | indent(2, true) }}", "x\ny"),
              ElementsAre("x", "y"));
  EXPECT_THAT(Marked("{% macro m(t) %}[{{ t }}]{% endmacro %}{{ m(messages[0]['content']) }}", "x"), ElementsAre("x"));
  EXPECT_THAT(Marked("{% for k in messages[0] %}{{ k }},{% endfor %}", "x"), ElementsAre("role", "content"));
}

// No input may crash: templates of the golden file with bytes changed, cut and repeated.
TEST(ChatTemplate, SurvivesDamagedTemplates) {
  const ordered_json golden = ordered_json::parse(ReadGolden("chat_templates.json"));
  std::vector<std::string> sources;
  for (const ordered_json& source : golden["templates"]) sources.push_back(source.get<std::string>());
  for (const ordered_json& one : golden["cases"]) {
    if (one.contains("source")) sources.push_back(one["source"].get<std::string>());
  }
  const ChatInput chat = InputOf(golden["chats"]["call, then text"]), values = InputOf(golden["small"]);
  const TemplateLimits limits{.max_steps = 20'000, .max_work_bytes = 1 << 22};
  constexpr std::string_view kPieces[] = {
      "{%", "%}",   "{{",    "}}",   "-", "|", "(", ")", "[", "]",  "'", "\"",  ".",    "~",     ":",        "{#",  "*",
      "\\", " is ", " not ", " in ", "9", "{", "}", ",", "=", "\n", "x", "for", "\xe2", "|list", ".items()", "loop"};
  std::mt19937 random(7);
  const auto below = [&](size_t limit) { return size_t(random()) % limit; };
  for (int round = 0; round < 4000; ++round) {
    std::string source = sources[below(sources.size())];
    for (size_t edits = 1 + below(4); edits > 0 && !source.empty(); --edits) {
      const size_t at = below(source.size()), length = below(std::min<size_t>(source.size() - at, 12) + 1);
      switch (below(4)) {
        case 0:
          source.erase(at, length);
          break;
        case 1:
          source.insert(at, kPieces[below(std::size(kPieces))]);
          break;
        case 2:
          source.insert(below(source.size()), source.substr(at, length));
          break;
        default:
          source[at] = char(below(256));
      }
    }
    const auto rendered = Render(source, round % 2 ? chat : values, limits);
    if (rendered.ok()) {
      EXPECT_LE(rendered->conversation.size(), rendered->text.size());
    }
  }
}

}  // namespace
}  // namespace winnow
