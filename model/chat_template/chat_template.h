// How a model wants a conversation written: the Jinja template that comes with it, read once, rendered for each prompt.
// It does what Hugging Face's transformers does with the same template (apply_chat_template), within limits. Immutable
// after loading, so any thread may render.
#pragma once

#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "model/chat_template/limits.h"
#include "model/text_span.h"

namespace winnow {

namespace jinja {
struct Statement;
}

// The special tokens by their text, as templates name them: {{ bos_token }}. Left undefined where there is none.
struct TemplateTokens {
  std::optional<std::string> bos_token = std::nullopt, eos_token = std::nullopt, pad_token = std::nullopt,
                             unk_token = std::nullopt;
};

struct ChatInput {
  // An array of {"role": ..., "content": ...}, with whatever else the template knows (tool_calls, ...).
  nlohmann::ordered_json messages = nlohmann::ordered_json::array();
  nlohmann::ordered_json tools = nullptr;      // an array of JSON schemas, or null
  nlohmann::ordered_json documents = nullptr;  // an array, or null
  bool add_generation_prompt = true;           // ends where the assistant is to begin
  // An object: more names for the template, such as enable_thinking. They are the caller's, not the conversation's.
  nlohmann::ordered_json more = nlohmann::ordered_json::object();
};

struct RenderedChat {
  std::string text;
  // The bytes that came from messages, tools and documents, roles not counted: ascending, not touching. A special
  // token's text in there, or across their border, is text like any other.
  std::vector<TextSpan> conversation;
};

class ChatTemplate {
 public:
  // BadFile naming line and construct for what is no template or not supported, and for a template past the limits.
  static Result<ChatTemplate> Load(std::string_view source, TemplateTokens tokens, const TemplateLimits& limits = {});
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  // now: local time, for templates that write the date. InvalidArgument with the line where the template refuses
  // these messages, cannot deal with them, or exceeds its limits.
  Result<RenderedChat> Render(const ChatInput& input, const std::tm& now) const;

 private:
  ChatTemplate(std::vector<std::unique_ptr<jinja::Statement>> block, TemplateTokens tokens,
               const TemplateLimits& limits);

  std::vector<std::unique_ptr<jinja::Statement>> block_;
  TemplateTokens tokens_;
  TemplateLimits limits_;
};

}  // namespace winnow
