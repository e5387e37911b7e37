// The chat template of a model file, and the tokens of what it renders. Pure functions, any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "model/chat_template/chat_template.h"
#include "model/gguf.h"
#include "model/tokenizer.h"

namespace winnow {

// tokenizer.chat_template of the file. BadFile if there is none, or as ChatTemplate::Load.
Result<ChatTemplate> ReadChatTemplate(const GgufFile& file);
// The tokens that templates name, as the file names them.
TemplateTokens ReadTemplateTokens(const GgufFile& file);

// The ids of a rendered chat. Special tokens are recognised where the template wrote them, not in what came from the
// conversation, and none is put in front: templates write the begin-of-text token themselves.
Result<std::vector<int32_t>> EncodeChat(const Tokenizer& tokenizer, const RenderedChat& chat);

}  // namespace winnow
