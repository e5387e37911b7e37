// What has been said in a chat, and the request that asks for the next answer. Rank 0, one thread.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "engine/request.h"
#include "launch/chat_options.h"
#include "model/checkpoint.h"

namespace winnow {

class Conversation {
 public:
  // Loads tokenizer and template. BadFile for either; InvalidArgument for a template file that cannot be read.
  static Result<Conversation> Make(const ChatOptions& options, const Checkpoint& model, uint64_t seed);

  // Tokens of the conversation and the answer at most.
  int64_t context() const { return context_; }
  const Tokenizer& tokenizer() const { return tokenizer_; }
  // The longest request that may come: what the cache needs room for.
  Result<Request> LongestRequest() const;

  // The request for the answer to `text`, which is part of the conversation from then on. InvalidArgument, and the text
  // is forgotten, where the template refuses it or the conversation has become too long.
  Result<Request> Ask(const std::string& text);
  // What was answered.
  void Answer(const std::string& text);
  // Nothing was: the last text is forgotten.
  void Forget();

 private:
  Conversation(const ChatOptions& options, const ModelConfig& config, Tokenizer tokenizer, ChatTemplate chat_template,
               uint64_t seed);
  Result<Request> MakeRequest(std::vector<int32_t> prompt) const;

  ChatOptions options_;
  KvShape shape_;
  int64_t context_;
  uint64_t seed_;
  Tokenizer tokenizer_;
  ChatTemplate template_;
  nlohmann::ordered_json messages_ = nlohmann::ordered_json::array();
};

}  // namespace winnow
