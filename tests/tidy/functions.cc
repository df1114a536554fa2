#include "tests/tidy/rules.h"

#include <regex>

namespace understudy::tidy {
namespace {

enum class Scope { kOuter, kFunction, kOther };

/// Walks blanked text and keeps a stack of what each open brace began.
class FunctionFinder {
 public:
  explicit FunctionFinder(std::string code) : code_(std::move(code)) {}

  std::vector<FunctionSpan> Run() {
    for (at_ = 0; at_ < code_.size(); ++at_) {
      const char c = code_[at_];
      if (c == '\n') {
        ++line_;
      }
      if (c == '{') {
        Open();
      } else if (c == '}') {
        Close();
      } else {
        Outside(c);
      }
    }
    return std::move(found_);
  }

 private:
  [[nodiscard]] bool InOuter() const { return stack_.empty() || stack_.back() == Scope::kOuter; }

  void ResetHead() {
    head_.clear();
    parens_ = 0;
  }

  void Outside(char c) {
    if (!InOuter()) {
      return;
    }
    if (c == ';' && parens_ == 0) {
      ResetHead();
      return;
    }
    parens_ += c == '(' ? 1 : c == ')' ? -1 : 0;
    const bool space = c == ' ' || c == '\n' || c == '\t';
    if (head_.empty()) {
      if (space) {
        return;
      }
      head_line_ = line_;
    }
    head_ += space ? ' ' : c;
    static const std::regex kAccess("(public|private|protected|signals) *:$");
    if (c == ':' && std::regex_match(head_, kAccess)) {
      ResetHead();
    }
  }

  void Open() {
    const Scope scope = InOuter() ? Classify() : Scope::kOther;
    stack_.push_back(scope);
    if (scope == Scope::kFunction) {
      found_.push_back({head_, head_line_, 0});
      ResetHead();
    } else if (scope == Scope::kOuter) {
      ResetHead();
    }
  }

  void Close() {
    if (stack_.empty()) {
      return;  // unbalanced text, for example two branches of an #if: the next head starts afresh
    }
    const Scope scope = stack_.back();
    stack_.pop_back();
    if (scope == Scope::kFunction) {
      found_.back().last_line = line_;
      ResetHead();
    } else if (scope == Scope::kOuter) {
      ResetHead();
    } else if (InOuter()) {
      head_ += '}';
    }
  }

  /// What the brace at `at_` begins, by the text since the last declaration ended.
  [[nodiscard]] Scope Classify() const {
    static const std::regex kNamespace(R"(^(inline )?(namespace\b.*|extern) *$)");
    static const std::regex kType(
        R"(^(template ?<.*> *)?(typedef )?(class|struct|union|enum)\b[^()=]*(\([^()]*\)[^()=]*)?$)");
    if (std::regex_match(head_, kNamespace)) {
      return Scope::kOuter;
    }
    const bool attached = at_ > 0 && code_[at_ - 1] != ' ' && code_[at_ - 1] != '\n';
    if (parens_ > 0 || attached) {
      return HasLambda() && code_[at_ - 1] == ' ' ? Scope::kFunction : Scope::kOther;
    }
    if (std::regex_match(head_, kType)) {
      return head_.find("enum") == std::string::npos ? Scope::kOuter : Scope::kOther;
    }
    if (HasLambda()) {
      return Scope::kFunction;
    }
    if (head_.find('(') == std::string::npos || EndsWithAssignment()) {
      return Scope::kOther;
    }
    return Scope::kFunction;
  }

  [[nodiscard]] bool EndsWithAssignment() const {
    const std::size_t last = head_.find_last_not_of(' ');
    return last != std::string::npos && (head_[last] == '=' || head_[last] == ',');
  }

  /// `= [..](..) {` in a variable at namespace level: long ones are functions in all but name.
  [[nodiscard]] bool HasLambda() const {
    static const std::regex kLambda(R"([=(,] *\[[^\]]*\] *(\(.*\))?[^()=]*$)");
    return std::regex_search(head_, kLambda);
  }

  std::string code_;
  std::size_t at_ = 0;
  std::size_t line_ = 1;
  std::size_t head_line_ = 1;
  int parens_ = 0;
  std::string head_;
  std::vector<Scope> stack_;
  std::vector<FunctionSpan> found_;
};

}  // namespace

std::vector<FunctionSpan> FindFunctions(std::string_view text) {
  return FunctionFinder(BlankNonCode(text)).Run();
}

std::vector<Finding> CheckSizes(const SourceFile& file) {
  std::vector<Finding> findings;
  const std::size_t lines = Lines(file.text).size();
  if (lines > kFileLinesMax) {
    findings.push_back(
        {file.path,
         0,
         std::to_string(lines) + " lines, over the limit of " + std::to_string(kFileLinesMax)});
  }
  if (!IsCpp(file.path)) {
    return findings;
  }
  for (const FunctionSpan& span : FindFunctions(file.text)) {
    if (span.lines() > kFunctionLinesMax) {
      findings.push_back({file.path,
                          span.first_line,
                          "function of " + std::to_string(span.lines()) +
                              " lines, over the limit of " + std::to_string(kFunctionLinesMax) +
                              ": " + span.head.substr(0, 60)});
    }
  }
  return findings;
}

}  // namespace understudy::tidy
