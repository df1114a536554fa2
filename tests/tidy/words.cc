#include "tests/tidy/rules.h"

#include <array>
#include <regex>

namespace understudy::tidy {
namespace {

/// Lines matching `pattern` in files whose path begins with `folder` are findings.
struct Word {
  std::string folder;
  std::regex pattern;
  std::string reason;
};

std::regex Pattern(const std::string& text) {
  return std::regex(text, std::regex::ECMAScript | std::regex::icase | std::regex::optimize);
}

/// The literals are cut in two, so that this file passes its own check.
const std::vector<Word>& Words() {
  static const std::vector<Word> kWords = {
      {"",
       Pattern("(^|[^a-z0-9_./$}])/(wo"
               "rk|ro"
               "ot|ho"
               "me)/[a-z0-9._]"),
       "path of one machine"},
      {"",
       Pattern("/opt/(ve"
               "nvs|whe"
               "els)"),
       "path of one machine"},
      {"",
       Pattern("(pypi|pythonhosted)\\.o"
               "rg|deb\\.debian\\.o"
               "rg|snapshot\\.debian|crates\\.i"
               "o\\b"),
       "host of a package mirror"},
      {"",
       Pattern("(trusted-ho"
               "st|index-ur"
               "l|find-lin"
               "ks)\\b"),
       "setting of a package mirror"},
      {"",
       Pattern("\\bissue"
               " #?[0-9]"),
       "note about how the project is worked on"},
      {"",
       Pattern("\\bshared/(sp"
               "ec|vec"
               "tors|examp"
               "les|STY"
               "LE|READ"
               "ME)"),
       "folder outside the project"},
      {"transport/",
       Pattern("\\bsched"
               "uler"),
       "a word of the engine: wires know no scheduling"},
  };
  return kWords;
}

}  // namespace

std::vector<Finding> CheckWords(const SourceFile& file) {
  std::vector<Finding> findings;
  std::size_t number = 0;
  for (const std::string_view line : Lines(file.text)) {
    ++number;
    for (const Word& word : Words()) {
      if (file.path.rfind(word.folder, 0) == 0 &&
          std::regex_search(line.begin(), line.end(), word.pattern)) {
        findings.push_back({file.path, number, word.reason});
      }
    }
  }
  return findings;
}

}  // namespace understudy::tidy
