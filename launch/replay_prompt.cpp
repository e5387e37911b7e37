#include "launch/replay_prompt.h"

namespace winnow {

Result<ReplayPrompt> MakeReplayPrompt(const Tokenizer& tokenizer) {
  ReplayPrompt prompt;
  WINNOW_ASSIGN_OR_RETURN(prompt.first,
                          tokenizer.Encode("\n\nRepeat the previous context exactly.\n", {.add_bos = false}));
  // What it starts with follows: the end of the chunk before.
  WINNOW_ASSIGN_OR_RETURN(
      prompt.next,
      tokenizer.Encode("\n\nRepeat the part of the previous context exactly, starting with\n", {.add_bos = false}));
  return prompt;
}

}  // namespace winnow
