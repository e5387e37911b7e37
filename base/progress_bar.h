// One progress display for a long task: a bar that redraws itself on a terminal, a plain line every few seconds
// elsewhere. The caller owns it, keeps it on one thread, and makes one on rank 0 only.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace winnow {

struct ProgressOptions {
  enum class Unit { kBytes, kSteps };

  std::string label;   // "loading weights"
  uint64_t total = 0;  // bytes or steps; 0: not known, then neither a bar nor a remaining time is shown
  Unit unit = Unit::kSteps;
  std::string step_name = "steps";  // plural, shown after the rate; not used for bytes
  bool terminal = false;            // redraw one line; false: plain lines
  bool color = false;               // only with terminal
  int width = 80;                   // columns of the terminal; the line is never longer
  double plain_interval_s = 5.0;    // between plain lines
};

// `options` with terminal, color and width taken from standard error and the environment: a bar only on a terminal
// that can redraw (TERM is not "dumb"), colour only without NO_COLOR.
ProgressOptions ForStandardError(ProgressOptions options);

class ProgressBar {
 public:
  using Sink = std::function<void(std::string_view text)>;  // called with text as it is, line ends included
  using Clock = std::function<double()>;                    // monotonic seconds

  // Writes to standard error, timed by the steady clock.
  explicit ProgressBar(ProgressOptions options);
  ProgressBar(ProgressOptions options, Sink sink, Clock clock);
  // Without Finish (an error on the way) the terminal's line is ended, so that the message starts on its own line.
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // `done` is the number of bytes or steps so far, not an increment; less than before is shown as it is, more than
  // the total counts as the total. Cheap enough for every step: most calls only read the clock.
  void Update(uint64_t done);

  // The last line, with the total time and rate. Later calls of Update and Finish do nothing.
  void Finish();

 private:
  std::string Amount(double amount) const;
  std::string Line(double now_s) const;
  void Draw(double now_s);

  ProgressOptions options_;
  Sink sink_;
  Clock clock_;
  double start_s_;
  double last_draw_s_;
  uint64_t done_ = 0;
  bool line_is_open_ = false;  // a terminal line without its line end
  bool finished_ = false;
};

}  // namespace winnow
