// A byte-level vocabulary of a few hundred tokens for tests: any text can be encoded, and a few words are merged.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/gguf_writer.h"

namespace winnow {

struct TinyVocabulary {
  // 256 single bytes (id = byte), then what the merges make, then <|endoftext|>, <|im_start|>, <|im_end|>.
  TinyVocabulary();

  // Adds the tokenizer.ggml.* keys. A test that wants bad metadata changes the members first.
  void AddTo(GgufWriter* writer) const;

  std::string model = "gpt2";
  std::string pre_tokenizer = "smollm";
  std::vector<std::string> tokens;  // spelled in GPT-2's byte alphabet
  std::vector<int32_t> types;
  std::vector<std::string> merges;
  uint32_t bos_id, eos_id;
  bool add_bos = false;

  int32_t IdOf(std::string_view token) const;  // by spelling; aborts when there is none
};

}  // namespace winnow
