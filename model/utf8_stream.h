// Turns the bytes of generated tokens into text as they come: a token may end inside a code point. One per stream,
// owned by whoever writes the stream out; one thread at a time.
#pragma once

#include <string>
#include <string_view>

namespace winnow {

class Utf8Stream {
 public:
  // Returns what has become certain: valid UTF-8, with U+FFFD for every maximal subpart of an ill-formed sequence. Up
  // to three bytes of an unfinished code point are held back.
  std::string Push(std::string_view bytes);
  // Ends the stream: U+FFFD if bytes were held back, else nothing. The object may then be used anew.
  std::string Finish();

 private:
  std::string held_back_;
};

}  // namespace winnow
