#include "model/chat_prompt.h"

#include <optional>
#include <utility>

namespace winnow {
namespace {

// The text of the token whose id the file has under this key.
std::optional<std::string> TokenNamed(const GgufFile& file, const std::string& key) {
  if (!file.Has(key)) return std::nullopt;
  const auto id = file.GetUint(key);
  const auto tokens = file.GetStringArray("tokenizer.ggml.tokens");
  if (!id.ok() || !tokens.ok() || *id >= tokens->size()) return std::nullopt;
  return std::string((*tokens)[*id]);
}

}  // namespace

TemplateTokens ReadTemplateTokens(const GgufFile& file) {
  return {.bos_token = TokenNamed(file, "tokenizer.ggml.bos_token_id"),
          .eos_token = TokenNamed(file, "tokenizer.ggml.eos_token_id"),
          .pad_token = TokenNamed(file, "tokenizer.ggml.padding_token_id"),
          .unk_token = TokenNamed(file, "tokenizer.ggml.unknown_token_id")};
}

Result<ChatTemplate> ReadChatTemplate(const GgufFile& file) {
  constexpr const char* kKey = "tokenizer.chat_template";
  if (!file.Has(kKey)) return file.Bad("expected a chat template (tokenizer.chat_template), found none");
  WINNOW_ASSIGN_OR_RETURN(const std::string_view source, file.GetString(kKey));
  auto chat_template = ChatTemplate::Load(source, ReadTemplateTokens(file));
  if (!chat_template.ok()) return file.Bad(chat_template.status().message());
  return chat_template;
}

Result<std::vector<int32_t>> EncodeChat(const Tokenizer& tokenizer, const RenderedChat& chat) {
  return tokenizer.Encode(chat.text, {.parse_special = true, .plain = chat.conversation, .add_bos = false});
}

}  // namespace winnow
