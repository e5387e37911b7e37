// How fast one thread turns a text into token ids and back: tokenizer_bench MODEL TEXT [--chunk BYTES] [--special]
// [--ids FILE]. MODEL is a GGUF file or a directory of Hugging Face. --chunk: pieces that end with the first line at or
// after so many bytes, each a text of its own. Prints one JSON line; --ids writes the ids as int32, for comparisons
// (bench/tokenizer.py runs this beside Hugging Face's tokenizers).
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/tokenizer.h"

namespace winnow {
namespace {

double Seconds(const auto& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Result<Tokenizer> Open(const std::string& path) {
  if (std::filesystem::is_directory(path)) return Tokenizer::FromDirectory(path);
  WINNOW_ASSIGN_OR_RETURN(const GgufFile file, GgufFile::Open(path));
  return Tokenizer::FromGguf(file);
}

std::vector<std::string_view> Chunks(std::string_view text, size_t num_bytes) {
  std::vector<std::string_view> chunks;
  while (num_bytes > 0 && text.size() > num_bytes) {
    const size_t line_end = text.find('\n', num_bytes - 1);
    if (line_end == std::string_view::npos) break;
    chunks.push_back(text.substr(0, line_end + 1));
    text.remove_prefix(line_end + 1);
  }
  chunks.push_back(text);
  return chunks;
}

int Run(const std::vector<std::string>& arguments) {
  size_t chunk_bytes = 0;
  bool special = false;
  std::string ids_path;
  for (size_t i = 2; i < arguments.size(); ++i) {
    if (arguments[i] == "--special") special = true;
    if (arguments[i] == "--chunk" && i + 1 < arguments.size()) chunk_bytes = std::stoul(arguments[++i]);
    if (arguments[i] == "--ids" && i + 1 < arguments.size()) ids_path = arguments[++i];
  }
  std::ifstream file(arguments[1], std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  std::optional<Result<Tokenizer>> tokenizer;
  const double load = Seconds([&] { tokenizer.emplace(Open(arguments[0])); });
  if (!tokenizer->ok()) {
    fmt::print(stderr, "{}\n", tokenizer->status().message());
    return int(tokenizer->status().code());
  }
  // The token in front is no part of the text.
  const size_t first = (*tokenizer)->adds_bos() && !special ? 1 : 0;
  double encode = 0, decode = 0;
  std::vector<int32_t> all_ids;
  std::string all_text;
  for (const std::string_view chunk : Chunks(text, chunk_bytes)) {
    std::vector<int32_t> ids;
    std::string decoded;
    encode += Seconds([&] { ids = (*tokenizer)->Encode(chunk, {.parse_special = special}).value(); });
    decode += Seconds([&] { decoded = (*tokenizer)->Decode(std::span(ids).subspan(first)).value(); });
    all_ids.insert(all_ids.end(), ids.begin(), ids.end());
    all_text += decoded;
  }
  if (!ids_path.empty()) {
    std::ofstream out(ids_path, std::ios::binary);
    out.write(reinterpret_cast<const char*>(all_ids.data()), std::streamsize(all_ids.size() * sizeof all_ids[0]));
  }
  fmt::print(
      "{{\"load_seconds\": {:.4f}, \"encode_seconds\": {:.4f}, \"decode_seconds\": {:.5f}, \"bytes\": {}, "
      "\"tokens\": {}, \"round_trip\": {}}}\n",
      load, encode, decode, text.size(), all_ids.size(), all_text == text);
  return 0;
}

}  // namespace
}  // namespace winnow

int main(int argc, char** argv) {
  if (argc < 3) {
    fmt::print(stderr, "usage: tokenizer_bench MODEL TEXT [--chunk BYTES] [--special] [--ids FILE]\n");
    return 2;
  }
  return winnow::Run(std::vector<std::string>(argv + 1, argv + argc));
}
