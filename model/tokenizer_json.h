// Hugging Face's tokenizer.json as a TokenizerSpec. Everything in it that decides about ids or text is either
// understood or refused by name. Internal to model/tokenizer; pure functions, any thread.
#pragma once

#include "base/status.h"
#include "model/strict_json.h"
#include "model/tokenizer_spec.h"

namespace winnow {

// The vocabulary, merges and special tokens; calls the others below. BadFile.
Status ReadTokenizerJson(const JsonView& file, TokenizerSpec* spec);

// spec->normalizer of "normalizer", then of a Metaspace in "pre_tokenizer"; spec->cuts of the rest of it.
Status ReadTextRules(const JsonView& file, TokenizerSpec* spec);

// spec->special.add_bos and bos_id of "post_processor", spec->decode_drops_space of "decoder".
Status ReadOutputRules(const JsonView& file, TokenizerSpec* spec);

}  // namespace winnow
