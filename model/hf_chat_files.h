// What a Hugging Face directory says about chats: chat_template.jinja or the template in tokenizer_config.json, and the
// text of the tokens that templates name. Pure functions, any thread.
#pragma once

#include <string>

#include "base/status.h"
#include "model/chat_template/chat_template.h"

namespace winnow {

// bos_token, eos_token, pad_token and unk_token of tokenizer_config.json, or else of special_tokens_map.json. BadFile
// for files that are no JSON or say something else than text.
Result<TemplateTokens> ReadHfTemplateTokens(const std::string& directory);

// chat_template.jinja; or else "chat_template" of tokenizer_config.json, which is a text or a list of named ones of
// which "default" is taken. BadFile if there is none, or as ChatTemplate::Load.
Result<ChatTemplate> ReadHfChatTemplate(const std::string& directory);

}  // namespace winnow
