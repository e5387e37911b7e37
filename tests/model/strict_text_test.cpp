// Field cases 67, 69 and 70: templates that refuse a conversation, characters that are cut by tokens, bytes that are no
// text at all.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/philox.h"
#include "model/chat_template/chat_template.h"
#include "model/utf8.h"
#include "model/utf8_stream.h"

namespace winnow {
namespace {

using ::testing::HasSubstr;

// As Gemma's: no system role, roles in turn; as Mistral's: the system message first.
constexpr const char* kInTurn =
    "{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
    "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}"
    "<{{ m.role }}>{{ m.content }}{% endfor %}";
constexpr const char* kSystemFirst =
    "{% for m in messages %}{% if m.role == 'system' and not loop.first %}"
    "{{ raise_exception('System message must be at the beginning.') }}{% endif %}<{{ m.role }}>{{ m.content }}{% "
    "endfor %}";

Status Render(const char* source, const std::vector<const char*>& roles) {
  ChatInput input;
  for (const char* role : roles) input.messages.push_back({{"role", role}, {"content", "x"}});
  const auto chat_template = ChatTemplate::Load(source, {});
  if (!chat_template.ok()) return chat_template.status();
  return chat_template->Render(input, {}).status();
}

TEST(StrictText, ATemplateThatRefusesIsTheRequestsErrorInItsOwnWords) {
  EXPECT_TRUE(Render(kInTurn, {"user", "assistant", "user"}).ok());
  EXPECT_TRUE(Render(kSystemFirst, {"system", "user"}).ok());
  const auto expect_refused = [](const char* source, const std::vector<const char*>& roles, const char* words) {
    const Status status = Render(source, roles);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr(std::string("the template refuses: ") + words));
  };
  expect_refused(kInTurn, {"system", "user"}, "System role not supported");
  expect_refused(kInTurn, {"user", "user"}, "Conversation roles must alternate");
  expect_refused(kSystemFirst, {"user", "system"}, "System message must be at the beginning.");
}

TEST(StrictText, AByteATokenGivesTheTextAndACutInsideACharacterGivesUtf8) {
  const std::string text =
      "h\xc3\xa9llo \xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x91\xa7 \xe6\xbc\xa2\xe5\xad\x97";
  for (size_t length = 0; length <= text.size(); ++length) {  // as max_tokens cuts it
    Utf8Stream stream;
    std::string streamed;
    for (size_t i = 0; i < length; ++i) {
      const std::string part = stream.Push(text.substr(i, 1));
      EXPECT_FALSE(FindInvalidUtf8(part));
      streamed += part;
    }
    // What came before the end is the text's own, without any U+FFFD.
    EXPECT_EQ(streamed, text.substr(0, streamed.size()));
    EXPECT_LT(length - streamed.size(), 4u);
    const std::string end = stream.Finish();
    EXPECT_EQ(end, streamed.size() == length ? "" : "\xef\xbf\xbd");
  }
}

TEST(StrictText, RandomBytesBecomeJsonThatOthersRead) {
  Utf8Stream stream;
  std::string whole;
  for (uint32_t i = 0; i < 20'000; ++i) {
    const std::string part = stream.Push(std::string(1, char(Philox(70, {i, 0, 0, 0})[0])));
    whole += part;
    EXPECT_NO_THROW(nlohmann::json(part).dump());  // throws for what is not UTF-8
  }
  whole += stream.Finish();
  EXPECT_EQ(nlohmann::json::parse(nlohmann::json(whole).dump()), whole);
}

}  // namespace
}  // namespace winnow
