#include "model/hf_rope.h"

#include "base/exact_math.h"

namespace winnow {
namespace {

constexpr double kDefaultTheta = 10000;  // of all four model types
constexpr int kMaxContext = 1 << 30;

Status CheckTheta(const HfFields& fields, double theta, ModelConfig* config) {
  if (!(theta >= 1 && theta <= 1e12)) return fields.Expected("rope_theta", "1 to 1e12");
  config->rope_theta = float(theta);
  return OkStatus();
}

Status CheckWholeHead(HfFields* fields) {
  WINNOW_ASSIGN_OR_RETURN(const auto share, fields->Number("partial_rotary_factor"));
  return share.value_or(1) == 1 ? OkStatus()
                                : fields->Expected("partial_rotary_factor", "1 (all of a head is rotated)");
}

// A number above `above` that must be there.
Result<double> Positive(HfFields* fields, const char* key, double above) {
  WINNOW_ASSIGN_OR_RETURN(const auto value, fields->Number(key));
  if (!value || !(*value > above) || *value > 1e9) {
    return fields->Expected(key, above == 0 ? "a number above 0" : "a number of 1 or more");
  }
  return *value;
}
Result<double> PositiveOr(HfFields* fields, const char* key, double otherwise) {
  WINNOW_ASSIGN_OR_RETURN(const auto value, fields->Number(key));
  return value ? Positive(fields, key, 0) : Result<double>(otherwise);
}

Status ReadFactor(HfFields* fields, RopeScaling* scaling) {
  WINNOW_ASSIGN_OR_RETURN(scaling->factor, Positive(fields, "factor", 0));
  return scaling->factor >= 1 ? OkStatus() : fields->Expected("factor", "a number of 1 or more");
}

Status ReadLlama3(HfFields* fields, RopeScaling* scaling) {
  scaling->type = RopeScaling::Type::kLlama3;
  WINNOW_RETURN_IF_ERROR(ReadFactor(fields, scaling));
  WINNOW_ASSIGN_OR_RETURN(scaling->low_freq_factor, Positive(fields, "low_freq_factor", 0));
  WINNOW_ASSIGN_OR_RETURN(scaling->high_freq_factor, Positive(fields, "high_freq_factor", 0));
  if (scaling->high_freq_factor <= scaling->low_freq_factor) {
    return fields->Expected("high_freq_factor", "more than low_freq_factor");
  }
  WINNOW_ASSIGN_OR_RETURN(scaling->original_context,
                          fields->RequiredInt("original_max_position_embeddings", 1, kMaxContext));
  return OkStatus();
}

// The scale of cosines and sines is the paper's 0.1 ln(factor) + 1 unless given (arXiv 2309.00071, section 3.4).
Status ReadYarn(HfFields* fields, int max_context, RopeScaling* scaling) {
  scaling->type = RopeScaling::Type::kYarn;
  WINNOW_RETURN_IF_ERROR(ReadFactor(fields, scaling));
  WINNOW_ASSIGN_OR_RETURN(const auto original, fields->Int("original_max_position_embeddings", 1, kMaxContext));
  scaling->original_context = original.value_or(max_context);
  WINNOW_ASSIGN_OR_RETURN(scaling->beta_fast, PositiveOr(fields, "beta_fast", scaling->beta_fast));
  WINNOW_ASSIGN_OR_RETURN(scaling->beta_slow, PositiveOr(fields, "beta_slow", scaling->beta_slow));
  if (scaling->beta_fast <= scaling->beta_slow) return fields->Expected("beta_fast", "more than beta_slow");
  WINNOW_ASSIGN_OR_RETURN(scaling->attention_factor,
                          PositiveOr(fields, "attention_factor", 0.1 * ExactLog(scaling->factor) + 1));
  WINNOW_ASSIGN_OR_RETURN(const auto truncate, fields->Bool("truncate"));
  return truncate.value_or(true) ? OkStatus() : fields->Expected("truncate", "true");
}

Status ReadScaling(HfFields* fields, int max_context, RopeScaling* scaling) {
  WINNOW_ASSIGN_OR_RETURN(const auto old_name, fields->Text("type"));
  WINNOW_ASSIGN_OR_RETURN(const auto new_name, fields->Text("rope_type"));
  if (old_name && new_name && *old_name != *new_name) return fields->Expected("type", "the same as rope_type");
  if (!old_name && !new_name) return fields->Expected("rope_type", "default, linear, llama3 or yarn");
  const std::string type = new_name ? *new_name : *old_name;
  if (type == "linear") {
    scaling->type = RopeScaling::Type::kLinear;
    return ReadFactor(fields, scaling);
  }
  if (type == "llama3") return ReadLlama3(fields, scaling);
  if (type == "yarn") return ReadYarn(fields, max_context, scaling);
  if (type == "default") return OkStatus();
  return fields->Expected(new_name ? "rope_type" : "type", "default, linear, llama3 or yarn");
}

}  // namespace

Status ReadHfRope(HfFields* fields, ModelConfig* config) {
  WINNOW_ASSIGN_OR_RETURN(const auto theta, fields->Number("rope_theta"));
  WINNOW_RETURN_IF_ERROR(CheckTheta(*fields, theta.value_or(kDefaultTheta), config));
  WINNOW_RETURN_IF_ERROR(CheckWholeHead(fields));
  const bool has_old = fields->Take("rope_scaling") != nullptr, has_new = fields->Take("rope_parameters") != nullptr;
  if (has_old && has_new) return fields->Expected("rope_scaling", "none beside rope_parameters");
  if (!has_old && !has_new) return OkStatus();
  WINNOW_ASSIGN_OR_RETURN(const JsonView view, fields->View(has_new ? "rope_parameters" : "rope_scaling"));
  WINNOW_RETURN_IF_ERROR(view.CheckObject());
  HfFields inner(view);
  WINNOW_ASSIGN_OR_RETURN(const auto inner_theta, inner.Number("rope_theta"));
  if (inner_theta) {
    if (theta && *theta != *inner_theta) return inner.Expected("rope_theta", "the same as outside");
    WINNOW_RETURN_IF_ERROR(CheckTheta(inner, *inner_theta, config));
  }
  WINNOW_RETURN_IF_ERROR(CheckWholeHead(&inner));
  WINNOW_RETURN_IF_ERROR(ReadScaling(&inner, config->max_context, &config->rope_scaling));
  if (config->rope_scaling.type == RopeScaling::Type::kYarn && config->rope_theta <= 1) {
    return fields->Expected("rope_theta", "more than 1 with yarn");
  }
  return inner.RefuseOthers();
}

}  // namespace winnow
