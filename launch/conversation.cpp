#include "launch/conversation.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include "engine/context_replay.h"
#include "launch/replay_prompt.h"
#include "launch/text_file.h"
#include "model/chat_prompt.h"

namespace winnow {
namespace {

Result<ChatTemplate> LoadTemplate(const ChatOptions& options, const Checkpoint& model) {
  if (!options.template_path) return model.LoadChatTemplate();
  const auto source = ReadTextFile(*options.template_path, "--chat-template");
  if (!source.ok()) return BadFile(source.status().message());
  WINNOW_ASSIGN_OR_RETURN(TemplateTokens tokens, model.LoadTemplateTokens());
  auto chat_template = ChatTemplate::Load(*source, std::move(tokens));
  if (chat_template.ok()) return chat_template;
  return BadFile(*options.template_path + ": " + chat_template.status().message());
}

std::tm LocalNow() {
  const std::time_t seconds = std::time(nullptr);
  std::tm now{};
  localtime_r(&seconds, &now);
  return now;
}

}  // namespace

Conversation::Conversation(const ChatOptions& options, const ModelConfig& config, Tokenizer tokenizer,
                           ChatTemplate chat_template, uint64_t seed)
    : options_(options),
      shape_{config.num_layers, config.num_kv_heads, BytesOf(options.kv_dtype(), 2 * config.head_dim)},
      context_(options.max_model_len.value_or(std::min<int64_t>(config.max_context, kDefaultChatContext))),
      seed_(seed),
      tokenizer_(std::move(tokenizer)),
      template_(std::move(chat_template)) {
  if (options.system) messages_.push_back({{"role", "system"}, {"content", *options.system}});
}

Result<Conversation> Conversation::Make(const ChatOptions& options, const Checkpoint& model, uint64_t seed) {
  WINNOW_ASSIGN_OR_RETURN(Tokenizer tokenizer, model.LoadTokenizer());
  WINNOW_ASSIGN_OR_RETURN(ChatTemplate chat_template, LoadTemplate(options, model));
  return Conversation(options, model.config(), std::move(tokenizer), std::move(chat_template), seed);
}

Result<Request> Conversation::MakeRequest(std::vector<int32_t> prompt) const {
  Request request;
  request.prompt = std::move(prompt);
  request.max_tokens = std::min(options_.max_tokens, context_ - request.prompt_tokens());
  request.stop_token_ids = tokenizer_.eos_ids();
  request.sampling = options_.sampling;
  request.sampling.seed = seed_;
  WINNOW_ASSIGN_OR_RETURN(
      request.eviction,
      ResolveEviction(options_.eviction,
                      {.prompt_tokens = request.prompt_tokens(), .max_tokens = context_, .shape = shape_}));
  if (Replays(request.eviction)) {
    WINNOW_ASSIGN_OR_RETURN(request.eviction.replay_prompt, MakeReplayPrompt(tokenizer_));
  }
  return request;
}

Result<Request> Conversation::LongestRequest() const {
  return MakeRequest(std::vector<int32_t>(size_t(context_ - 1), 0));
}

Result<Request> Conversation::Ask(const std::string& text) {
  messages_.push_back({{"role", "user"}, {"content", text}});
  const auto forget = [&](const Status& status) {
    Forget();
    return status;
  };
  ChatInput input;
  input.messages = messages_;
  const auto chat = template_.Render(input, LocalNow());
  if (!chat.ok()) return forget(chat.status());
  auto ids = EncodeChat(tokenizer_, *chat);
  if (!ids.ok()) return forget(ids.status());
  if (ids->empty()) return forget(InvalidArgument("the chat template makes no token of the conversation"));
  if (int64_t(ids->size()) >= context_) {
    return forget(InvalidArgument("the conversation would take " + std::to_string(ids->size()) +
                                  " tokens, the context has " + std::to_string(context_) +
                                  ": say less, start again, or raise --max-model-len"));
  }
  auto request = MakeRequest(std::move(ids).value());
  return request.ok() ? std::move(request) : forget(request.status());
}

void Conversation::Answer(const std::string& text) {
  messages_.push_back({{"role", "assistant"}, {"content", text}});
}

void Conversation::Forget() {
  messages_.erase(messages_.size() - 1);
}

}  // namespace winnow
