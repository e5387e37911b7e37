#include "model/chat_template/chat_template.h"

#include <utility>

#include "model/chat_template/evaluator.h"
#include "model/chat_template/parser.h"
#include "model/chat_template/python_text.h"

namespace winnow {

using jinja::Value;

ChatTemplate::ChatTemplate(std::vector<std::unique_ptr<jinja::Statement>> block, TemplateTokens tokens,
                           const TemplateLimits& limits)
    : block_(std::move(block)), tokens_(std::move(tokens)), limits_(limits) {}
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

Result<ChatTemplate> ChatTemplate::Load(std::string_view source, TemplateTokens tokens, const TemplateLimits& limits) {
  const auto bad = [](const std::string& message) { return BadFile("chat template: " + message); };
  if (source.size() > limits.max_template_bytes) {
    return bad("expected at most " + std::to_string(limits.max_template_bytes) + " bytes, found " +
               std::to_string(source.size()));
  }
  if (!jinja::IsUtf8(source)) return bad("expected UTF-8");
  auto block = jinja::ParseTemplate(source, limits);
  if (!block.ok()) return bad(block.status().message());
  return ChatTemplate(std::move(block).value(), std::move(tokens), limits);
}

Result<RenderedChat> ChatTemplate::Render(const ChatInput& input, const std::tm& now) const {
  const auto refuse = [](const std::string& message) { return InvalidArgument("chat template: " + message); };
  if (!input.messages.is_array()) return refuse("expected messages to be an array");
  if (!input.more.is_object()) return refuse("expected further names to be an object");
  std::vector<std::pair<std::string, Value>> names;
  for (const auto& [name, token] :
       {std::pair("bos_token", &tokens_.bos_token), std::pair("eos_token", &tokens_.eos_token),
        std::pair("pad_token", &tokens_.pad_token), std::pair("unk_token", &tokens_.unk_token)}) {
    if (*token) names.emplace_back(name, Value::OfText(**token));
  }
  const auto add = [&](const std::string& name, const nlohmann::ordered_json& json, bool from_conversation) {
    auto value = jinja::FromJson(json, from_conversation);
    if (!value.ok()) return refuse(name + ": " + value.status().message());
    for (auto& [held_name, held] : names) {
      if (held_name == name) return refuse("the name '" + name + "' is given twice");
    }
    names.emplace_back(name, std::move(value).value());
    return OkStatus();
  };
  WINNOW_RETURN_IF_ERROR(add("messages", input.messages, true));
  WINNOW_RETURN_IF_ERROR(add("tools", input.tools, true));
  WINNOW_RETURN_IF_ERROR(add("documents", input.documents, true));
  WINNOW_RETURN_IF_ERROR(add("add_generation_prompt", input.add_generation_prompt, false));
  for (const auto& [name, json] : input.more.items()) WINNOW_RETURN_IF_ERROR(add(name, json, false));

  auto text = jinja::Evaluator(limits_, now).Render(block_, std::move(names));
  if (!text.ok()) return Status(text.status().code(), "chat template, " + text.status().message());
  return RenderedChat{std::string(text->view()), text->conversation()};
}

}  // namespace winnow
