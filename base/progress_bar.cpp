#include "base/progress_bar.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace winnow {
namespace {

constexpr double kRedrawInterval_s = 0.1;  // ten times a second looks smooth and costs nothing
constexpr size_t kMaxBarColumns = 24;
constexpr size_t kMinBarColumns = 8;  // shorter than this says less than the percentage
constexpr const char* kEraseLine = "\r\x1b[K";

std::string Bytes(double bytes) {
  if (bytes < 1e3) return fmt::format("{:.0f} B", bytes);
  if (bytes < 1e6) return fmt::format("{:.1f} kB", bytes / 1e3);
  if (bytes < 1e9) return fmt::format("{:.1f} MB", bytes / 1e6);
  return fmt::format("{:.2f} GB", bytes / 1e9);
}

std::string Duration(double seconds) {
  if (seconds < 10) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<int64_t>(std::min(seconds, 1e9) + 0.5);
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{}:{:02} min", whole / 60, whole % 60);
  return fmt::format("{}:{:02} h", whole / 3600, whole % 3600 / 60);
}

void WriteToStandardError(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

double SteadySeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

ProgressOptions ForStandardError(ProgressOptions options) {
  const char* term = std::getenv("TERM");
  const char* no_color = std::getenv("NO_COLOR");
  options.terminal = isatty(STDERR_FILENO) == 1 && term != nullptr && std::string_view(term) != "dumb";
  options.color = options.terminal && (no_color == nullptr || *no_color == '\0');
  winsize size{};
  if (options.terminal && ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) options.width = size.ws_col;
  return options;
}

ProgressBar::ProgressBar(ProgressOptions options)
    : ProgressBar(ForStandardError(std::move(options)), WriteToStandardError, SteadySeconds) {}

ProgressBar::ProgressBar(ProgressOptions options, Sink sink, Clock clock)
    : options_(std::move(options)),
      sink_(std::move(sink)),
      clock_(std::move(clock)),
      start_s_(clock_()),
      last_draw_s_(start_s_) {}

ProgressBar::~ProgressBar() {
  if (line_is_open_) sink_("\n");
}

void ProgressBar::Update(uint64_t done) {
  if (finished_) return;
  done_ = options_.total > 0 ? std::min(done, options_.total) : done;
  const double now_s = clock_();
  if (now_s - last_draw_s_ >= (options_.terminal ? kRedrawInterval_s : options_.plain_interval_s)) Draw(now_s);
}

void ProgressBar::Finish() {
  if (finished_) return;
  finished_ = true;
  const double elapsed_s = clock_() - start_s_;
  std::string line =
      fmt::format("{}: {} in {}", options_.label, Amount(static_cast<double>(done_)), Duration(elapsed_s));
  if (elapsed_s > 0) line += fmt::format(", {}/s", Amount(static_cast<double>(done_) / elapsed_s));
  sink_((line_is_open_ ? kEraseLine : "") + line + "\n");
  line_is_open_ = false;
}

std::string ProgressBar::Amount(double amount) const {
  if (options_.unit == ProgressOptions::Unit::kBytes) return Bytes(amount);
  const bool is_whole = amount == static_cast<double>(static_cast<int64_t>(amount));
  return fmt::format("{:.{}f} {}", amount, amount < 100 && !is_whole ? 1 : 0, options_.step_name);
}

std::string ProgressBar::Line(double now_s) const {
  const double elapsed_s = now_s - start_s_;
  const double rate = elapsed_s > 0 ? static_cast<double>(done_) / elapsed_s : 0;
  std::string line = options_.label + ":";
  if (options_.total > 0) {
    line += fmt::format(" {}%", done_ * 100 / options_.total);
  }
  if (options_.total == 0) {
    line += " " + Amount(static_cast<double>(done_));
  } else if (options_.unit == ProgressOptions::Unit::kBytes) {
    line += fmt::format(" {} of {}", Bytes(static_cast<double>(done_)), Bytes(static_cast<double>(options_.total)));
  } else {
    line += fmt::format(" {} of {} {}", done_, options_.total, options_.step_name);
  }
  line += fmt::format(", {}/s", Amount(rate));
  if (options_.total > 0 && rate > 0) {
    line += fmt::format(", {} left", Duration(static_cast<double>(options_.total - done_) / rate));
  }
  return line;
}

void ProgressBar::Draw(double now_s) {
  last_draw_s_ = now_s;
  std::string line = Line(now_s);
  if (!options_.terminal) {
    sink_(line + "\n");
    return;
  }
  // The last column stays free: writing there makes some terminals wrap, and a wrapped line cannot be redrawn.
  const auto columns = static_cast<size_t>(std::max(options_.width - 1, 1));
  if (line.size() > columns) line.resize(columns);
  const size_t bar_columns =
      std::min(kMaxBarColumns, columns - line.size() - std::min<size_t>(columns - line.size(), 3));
  if (options_.total > 0 && bar_columns >= kMinBarColumns) {
    const double share = static_cast<double>(done_) / static_cast<double>(options_.total);
    const auto filled = static_cast<size_t>(share * static_cast<double>(bar_columns));
    const std::string bar = std::string(filled, '#') + std::string(bar_columns - filled, '.');
    line += options_.color ? fmt::format(" [\x1b[32m{}\x1b[0m]", bar) : fmt::format(" [{}]", bar);
  }
  sink_(kEraseLine + line);
  line_is_open_ = true;
}

}  // namespace winnow
