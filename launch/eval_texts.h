// The texts of an evaluation: files of the user, tokenised and cut to what the model can read. Rank 0 reads them; the
// others get the tokens. Engine thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "dist/communicator.h"
#include "eval/loss_study.h"
#include "model/tokenizer.h"

namespace winnow {

struct EvalTextLimits {
  std::optional<std::string> split = std::nullopt;  // only documents of this split
  std::optional<int64_t> max_texts = std::nullopt;  // of each kind, the first ones
  int64_t max_tokens = 0;                           // longer texts are cut there
  // The first tokens of every text are its prompt, whatever its "prompt" says.
  std::optional<int64_t> prompt_tokens = std::nullopt;
};

// A file that ends in .jsonl holds one document a line: {"text", and if wanted "id", "kind", "split", "prompt"}
// (prompt: a beginning of the text, for policies that protect it); other files are one document, named after the file.
// InvalidArgument naming file and line for what cannot be read, for documents of fewer than 2 tokens, or than 2 after
// the prompt tokens asked for, and for none at all.
Result<std::vector<EvalText>> ReadEvalTexts(const std::vector<std::string>& paths, const EvalTextLimits& limits,
                                            const Tokenizer& tokenizer);

// Rank 0's texts on all ranks. Collective.
void BroadcastEvalTexts(Communicator& communicator, std::vector<EvalText>& texts);

}  // namespace winnow
