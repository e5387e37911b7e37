// render_chat: renders chat templates for tests/golden/compare_chat_templates.py and make_template_golden.py. Reads one
// JSON object a line from standard input: "template", "messages", and if wanted "tools", "documents", "more",
// "add_generation_prompt", "tokens", "now" (seconds since 1970, UTC). Writes one a line: {"text", "conversation"},
// {"load_error"} or {"render_error"}.
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "model/chat_template/chat_template.h"

namespace {

using Json = nlohmann::ordered_json;

std::optional<std::string> Token(const Json& tokens, const char* name) {
  return tokens.contains(name) ? std::optional<std::string>(tokens[name].get<std::string>()) : std::nullopt;
}

Json Render(const Json& line) {
  const Json tokens = line.value("tokens", Json::object());
  const auto chat_template = winnow::ChatTemplate::Load(
      line.at("template").get<std::string>(),
      {Token(tokens, "bos_token"), Token(tokens, "eos_token"), Token(tokens, "pad_token"), Token(tokens, "unk_token")});
  if (!chat_template.ok()) return {{"load_error", chat_template.status().message()}};
  winnow::ChatInput input;
  input.messages = line.at("messages");
  input.tools = line.value("tools", Json());
  input.documents = line.value("documents", Json());
  input.add_generation_prompt = line.value("add_generation_prompt", true);
  input.more = line.value("more", Json::object());
  const std::time_t seconds = line.value("now", std::time_t(0));
  std::tm now{};
  gmtime_r(&seconds, &now);
  const auto chat = chat_template->Render(input, now);
  if (!chat.ok()) return {{"render_error", chat.status().message()}};
  Json spans = Json::array();
  for (const winnow::TextSpan& span : chat->conversation) spans.push_back({span.begin, span.end});
  return {{"text", chat->text}, {"conversation", spans}};
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) std::cout << Render(Json::parse(line)).dump() << std::endl;
  return 0;
}
