// `winnow tokenize`: the tokens of a text, one a line: id, bytes, where it comes from. One process, no MPI; of the
// model only the tokenizer is read.
#pragma once

#include <optional>
#include <string>

#include "base/status.h"

namespace CLI {
class App;
}

namespace winnow {

struct TokenizeOptions {
  std::string model_path;                 // a GGUF file, or a directory as Hugging Face has it
  std::optional<std::string> text, file;  // one of them; none: standard input
  bool special = false;
  std::optional<bool> add_bos;
  bool json = false;
};

// Declares the flags on a sub-command; `options` must live until parsing is over.
void AddTokenizeFlags(CLI::App& command, TokenizeOptions* options);

// BadFile for the model, InvalidArgument for a text that cannot be read or is not UTF-8.
Status RunTokenize(const TokenizeOptions& options);

}  // namespace winnow
