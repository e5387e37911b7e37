#include "model/gguf_rope.h"

#include <cstdio>
#include <limits>

#include "base/exact_math.h"

namespace winnow {
namespace {

std::string Text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  return text;
}

class RopeReader {
 public:
  RopeReader(const GgufFile& file, const std::string& prefix) : file_(file), prefix_(prefix + "rope.") {}

  Status Read(ModelConfig* config) const {
    WINNOW_ASSIGN_OR_RETURN(const double theta, Number("freq_base", 1, 1e12, 10000));  // the architectures' default
    config->rope_theta = float(theta);
    WINNOW_ASSIGN_OR_RETURN(const double factor, Factor());
    WINNOW_ASSIGN_OR_RETURN(const std::string type, Type(factor));
    WINNOW_RETURN_IF_ERROR(Neutral("scaling.yarn_log_multiplier", 0));
    WINNOW_RETURN_IF_ERROR(Neutral("scaling.yarn_attn_factor", 1));
    RopeScaling* scaling = &config->rope_scaling;
    scaling->factor = factor;
    if (type == "yarn") return ReadYarn(config);
    WINNOW_RETURN_IF_ERROR(Neutral("scaling.attn_factor", 1));
    WINNOW_RETURN_IF_ERROR(Neutral("scaling.yarn_ext_factor", 0));
    if (type == "none") {
      scaling->factor = 1;
    } else if (factor != 1) {
      scaling->type = RopeScaling::Type::kLinear;
    }
    return OkStatus();
  }

 private:
  std::string Key(std::string_view name) const { return prefix_ + std::string(name); }

  // A number of `least` to `most`; `otherwise` if the file has none.
  Result<double> Number(std::string_view name, double least, double most, double otherwise) const {
    if (!file_.Has(Key(name))) return otherwise;
    WINNOW_ASSIGN_OR_RETURN(const double value, file_.GetFloat(Key(name)));
    if (value >= least && value <= most) return value;
    return file_.Bad(Key(name) + ": expected " + Text(least) + " to " + Text(most) + ", found " + Text(value));
  }

  Status Neutral(std::string_view name, double neutral) const {
    WINNOW_ASSIGN_OR_RETURN(const double value, Number(name, -1e9, 1e9, neutral));
    if (value == neutral) return OkStatus();
    return file_.Bad(Key(name) + ": expected none or " + Text(neutral) + ", found " + Text(value));
  }

  // Files have it by one of two names; 0 says that there is none.
  Result<double> Factor() const {
    const std::string_view name = file_.Has(Key("scaling.factor")) ? "scaling.factor" : "scale_linear";
    WINNOW_ASSIGN_OR_RETURN(const double factor, Number(name, 0, 1e6, 1));
    if (factor == 0) return 1.0;
    if (factor >= 1) return factor;
    return file_.Bad(Key(name) + ": expected 1 or more, found " + Text(factor));
  }

  Result<std::string> Type(double factor) const {
    if (!file_.Has(Key("scaling.type"))) return std::string(factor == 1 ? "none" : "linear");
    WINNOW_ASSIGN_OR_RETURN(const std::string_view type, file_.GetString(Key("scaling.type")));
    if (type == "none" || type == "linear" || type == "yarn") return std::string(type);
    return file_.Bad(Key("scaling.type") + ": expected none, linear or yarn, found " + std::string(type));
  }

  Status ReadYarn(ModelConfig* config) const {
    RopeScaling* scaling = &config->rope_scaling;
    scaling->type = RopeScaling::Type::kYarn;
    if (config->rope_theta <= 1) return file_.Bad(Key("freq_base") + ": expected more than 1 with yarn");
    constexpr double kMaxContext = std::numeric_limits<int32_t>::max();
    scaling->original_context = config->max_context;
    if (const std::string key = Key("scaling.original_context_length"); file_.Has(key)) {
      WINNOW_ASSIGN_OR_RETURN(const uint64_t context, file_.GetUint(key));
      if (context < 1 || double(context) > kMaxContext) {
        return file_.Bad(key + ": expected 1 to 2147483647, found " + std::to_string(context));
      }
      scaling->original_context = int64_t(context);
    }
    WINNOW_ASSIGN_OR_RETURN(scaling->beta_fast, Number("scaling.yarn_beta_fast", 1e-3, 1e6, scaling->beta_fast));
    WINNOW_ASSIGN_OR_RETURN(scaling->beta_slow, Number("scaling.yarn_beta_slow", 1e-3, 1e6, scaling->beta_slow));
    if (scaling->beta_fast <= scaling->beta_slow) {
      return file_.Bad(Key("scaling.yarn_beta_fast") + ": expected more than yarn_beta_slow");
    }
    WINNOW_RETURN_IF_ERROR(Neutral("scaling.yarn_ext_factor", 1));
    // The paper's factor (section 3.4), times what the file adds to it.
    WINNOW_ASSIGN_OR_RETURN(const double more, Number("scaling.attn_factor", 1e-3, 1e3, 1));
    scaling->attention_factor = (0.1 * ExactLog(scaling->factor) + 1) * more;
    return OkStatus();
  }

  const GgufFile& file_;
  const std::string prefix_;
};

}  // namespace

Status ReadGgufRope(const GgufFile& file, const std::string& prefix, ModelConfig* config) {
  return RopeReader(file, prefix).Read(config);
}

}  // namespace winnow
