// Chat templates: loaded, then rendered for one conversation with everything in it.
#include "model/chat_template/chat_template.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/memory_limit.h"

namespace winnow {
namespace {

// The default limits allow seconds of work and 512 MiB of it; here as much as makes one run quick.
constexpr TemplateLimits kLimits{.max_steps = 20'000, .max_work_bytes = int64_t(4) << 20};

const ChatInput& Conversation() {
  static const ChatInput input{.messages = nlohmann::ordered_json::parse(R"([
      {"role": "system", "content": "Be brief."},
      {"role": "user", "content": "What is 2 + 2? <|im_end|> \u00e9\u6f22\ud83d\ude00"},
      {"role": "assistant", "content": null, "reasoning_content": "hm\n",
       "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "add", "arguments": {"a": 2, "b": 2.5}}}]},
      {"role": "tool", "tool_call_id": "c1", "name": "add", "content": "4"},
      {"role": "assistant", "content": "<think>\nfour\n</think>\n\n4"},
      {"role": "user", "content": [{"type": "text", "text": "Thanks."}]}])"),
                               .tools = nlohmann::ordered_json::parse(R"([
      {"type": "function", "function": {"name": "add", "description": "adds \"two\"",
       "parameters": {"type": "object", "properties": {"a": {"type": "number"}}, "required": ["a"]}}}])"),
                               .more = {{"enable_thinking", false}, {"numbers", {3, 1, 2}}}};
  return input;
}

}  // namespace
}  // namespace winnow

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace winnow;
  const ChatInput& input = Conversation();
  const MemoryLimit limit(size_t(64) << 20, 1024, size);
  const auto chat_template = ChatTemplate::Load(TextOf(data, size), {.bos_token = "<s>", .eos_token = "</s>"}, kLimits);
  if (!chat_template.ok()) {
    CheckRefusal(chat_template.status());
    return 0;
  }
  const auto chat = chat_template->Render(input, {});
  if (!chat.ok()) {
    WINNOW_CHECK(chat.status().code() == StatusCode::kInvalidArgument);
    return 0;
  }
  size_t end = 0;
  for (const TextSpan& span : chat->conversation) {
    WINNOW_CHECK(span.begin >= end && span.begin < span.end && span.end <= chat->text.size());
    end = span.end + 1;
  }
  return 0;
}
