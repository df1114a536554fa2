// M-082..M-093: planned answers; texts of dynamo-llm 1.3.0.
#include "worker/request_path/replay_table.h"

#include "tests/fakes/server_process.h"
#include "worker/request_path/admission.h"

#include <fstream>
#include <string>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

namespace understudy::worker {
namespace {

using Ids = std::vector<std::uint32_t>;

/// The file of the recorded runs (vectors of a 1.3.0 worker, replay_*).
constexpr const char* kRecorded =
    R"({"request_id": "explicit", "session_id": "s", "output_length": 2, "output_token_ids": [7, 8]})"
    "\n\n"
    R"({"session_id": "s", "output_length": 1, "output_token_ids": [9]})"
    "\n"
    R"({"output_tokens": 1, "output_token_ids": [10]})"
    "\n"
    R"({"request_id": "noids", "output_length": 5})"
    "\n";

class ReplayTableTest : public ::testing::Test {
 protected:
  Result<ReplayTable> Load(const std::string& text) {
    std::ofstream(path_, std::ios::binary) << text;
    return ReplayTable::Load(path_);
  }
  ReplayTable Loaded(const std::string& text) {
    auto table = Load(text);
    EXPECT_TRUE(table) << (table ? "" : table.error().message);
    return table ? std::move(*table) : ReplayTable{};
  }
  /// Without what comes before the place in the file.
  std::string ErrorOf(const std::string& text) {
    const auto table = Load(text);
    if (table) {
      return "loaded";
    }
    EXPECT_EQ(table.error().code, Errc::kInvalidConfig);
    const std::string prefix = "failed to load response replay trace " + path_ + ": ";
    EXPECT_TRUE(table.error().message.starts_with(prefix)) << table.error().message;
    return table.error().message.substr(prefix.size());
  }
  static Ids Find(const ReplayTable& table, std::string_view key) {
    const auto found = table.Find(key);
    return found ? Ids(found->begin(), found->end()) : Ids{0};
  }
  [[nodiscard]] std::string At() const { return " from response replay trace " + path_ + ": "; }

  fakes::TempDir folder_;
  const std::string path_ = folder_.path() + "/trace.jsonl";
};

// M-082, M-083, M-084, M-086, M-092.
TEST_F(ReplayTableTest, KeysAreTheRequestElseSessionAndTurnElseTheLine) {
  const auto table = Loaded(kRecorded);
  EXPECT_EQ(table.rows(), 3U);
  EXPECT_EQ(table.tokens(), 4U);
  EXPECT_EQ(Find(table, "explicit"), (Ids{7, 8}));
  EXPECT_EQ(Find(table, "s:1"), (Ids{9})) << "the row with a request id was turn 0";
  EXPECT_EQ(Find(table, "line:3"), (Ids{10})) << "the blank line counts";
  EXPECT_FALSE(table.Find("line:2"));
  EXPECT_FALSE(table.Find("noids"));
  EXPECT_FALSE(table.Find("s:0"));
}

// M-084.
TEST_F(ReplayTableTest, RowsWithoutTokensAreTurnsOnly) {
  const auto table = Loaded(R"({"session_id":"s","output_length":3})"
                            "\n"
                            R"({"session_id":"s","output_token_ids":null})"
                            "\n"
                            R"({"session_id":"s","output_length":1,"output_token_ids":[5]})");
  EXPECT_EQ(table.rows(), 1U);
  EXPECT_EQ(Find(table, "s:2"), (Ids{5}));
}

// M-085: turns go by the session as it is written, keys by the trimmed one.
TEST_F(ReplayTableTest, IdsAreTrimmedAndEmptyOnesAreNone) {
  const auto table =
      Loaded(R"({"request_id":"  a b\t","output_length":1,"output_token_ids":[1]})"
             "\n"
             R"({"request_id":"  ","session_id":" s ","output_length":1,"output_token_ids":[2]})"
             "\n"
             R"({"request_id":"","session_id":" ","output_length":1,"output_token_ids":[3]})"
             "\n"
             R"({"request_id":null,"session_id":null,"output_length":1,"output_token_ids":[4]})"
             "\n");
  EXPECT_EQ(Find(table, "a b"), (Ids{1}));
  EXPECT_EQ(Find(table, "s:0"), (Ids{2}));
  EXPECT_EQ(Find(table, "line:2"), (Ids{3}));
  EXPECT_EQ(Find(table, "line:3"), (Ids{4}));
}

// M-087.
TEST_F(ReplayTableTest, AMissingLengthIsNamedWithItsLine) {
  EXPECT_EQ(ErrorOf("\n{\"output_token_ids\":[1]}\n"),
            "response replay trace line 2 has output_token_ids but no output_length");
}

// M-088.
TEST_F(ReplayTableTest, ALengthThatDoesNotMatchIsNamed) {
  EXPECT_EQ(
      ErrorOf(R"({"output_length":2,"output_token_ids":[1]})"),
      "response replay trace line 1 output_length 2 does not match output_token_ids length 1");
}

// M-089.
TEST_F(ReplayTableTest, AKeyGivenTwiceIsNamed) {
  EXPECT_EQ(ErrorOf(R"({"request_id":"a","output_length":0,"output_token_ids":[]})"
                    "\n"
                    R"({"request_id":" a","output_length":1,"output_token_ids":[1]})"),
            "response replay trace line 2 duplicates output_replay_id key a");
  EXPECT_EQ(ErrorOf(R"({"request_id":"line:1","output_length":0,"output_token_ids":[]})"
                    "\n"
                    R"({"output_length":0,"output_token_ids":[]})"),
            "response replay trace line 2 duplicates output_replay_id key line:1");
}

// M-090.
TEST_F(ReplayTableTest, AFileThatIsNotThereIsNamed) {
  const std::string missing = folder_.path() + "/none.jsonl";
  const auto table = ReplayTable::Load(missing);
  ASSERT_FALSE(table);
  EXPECT_EQ(table.error().message,
            "failed to load response replay trace " + missing +
                ": failed to open response replay trace " + missing +
                ": No such file or directory");
  const auto folder = ReplayTable::Load(folder_.path());
  ASSERT_FALSE(folder);
  EXPECT_NE(folder.error().message.find("failed to read line 1"), std::string::npos);
}

// M-090.
TEST_F(ReplayTableTest, ALineThatIsNoRowIsNamedWithWhatIsWrong) {
  EXPECT_EQ(ErrorOf("{}\nnope\n"),
            "failed to parse line 2" + At() + "expected ident at line 1 column 2");
  EXPECT_EQ(ErrorOf(R"({"output_token_ids":[1,"x"],"output_length":2})"),
            "failed to parse line 1" + At() +
                R"(invalid type: string "x", expected u32 at line 1 column 26)");
  EXPECT_EQ(ErrorOf(R"({"output_token_ids":[4294967296],"output_length":1})"),
            "failed to parse line 1" + At() +
                "invalid value: integer `4294967296`, expected u32 at line 1 column 31");
  EXPECT_EQ(ErrorOf(R"({"output_length":-1})"),
            "failed to parse line 1" + At() +
                "invalid value: integer `-1`, expected usize at line 1 column 19");
  EXPECT_EQ(
      ErrorOf(R"({"output_length":1,"output_tokens":1})"),
      "failed to parse line 1" + At() + "duplicate field `output_length` at line 1 column 34");
  EXPECT_EQ(ErrorOf("{} {}"),
            "failed to parse line 1" + At() + "trailing characters at line 1 column 4");
  EXPECT_NE(ErrorOf("[]"), "loaded");
  EXPECT_NE(ErrorOf("{\"request_id\":\"\xff\"}"), "loaded");
}

// M-091.
TEST_F(ReplayTableTest, OtherFieldsAreReadOver) {
  const auto table =
      Loaded(R"({"timestamp":1.5,"hash_ids":[1,2,[3]],"x":{"request_id":"no"},"request_id":"a",)"
             R"("output_length":1,"output_token_ids":[6]})");
  EXPECT_EQ(Find(table, "a"), (Ids{6}));
}

TEST_F(ReplayTableTest, LinesMayEndWithCarriageReturnsAndTheLastOneWithoutABreak) {
  const auto table = Loaded(
      "{\"output_length\":1,\"output_token_ids\":[1]}\r\n\r\n"
      "{\"output_length\":1,\"output_token_ids\":[2]}");
  EXPECT_EQ(Find(table, "line:0"), (Ids{1}));
  EXPECT_EQ(Find(table, "line:2"), (Ids{2}));
}

TEST_F(ReplayTableTest, AnEmptyFileHasNoRows) {
  EXPECT_EQ(Loaded("").rows(), 0U);
  EXPECT_EQ(Loaded("\n  \n").rows(), 0U);
}

TEST_F(ReplayTableTest, LinesAreBounded) {
  const std::string row = R"({"output_length":0,"output_token_ids":[]})";
  const std::string padding(kReplayLineBytesMax - row.size(), ' ');
  EXPECT_EQ(Loaded(padding + row + "\n").rows(), 1U);
  EXPECT_EQ(ErrorOf("{}\n" + padding + row + " \n"),
            "failed to read line 2" + At() + "longer than 16777216 bytes");
}

TEST_F(ReplayTableTest, LongAnswersKeepTheirOrder) {
  std::string row = R"({"request_id":"long","output_length":200000,"output_token_ids":[0)";
  for (int i = 1; i < 200'000; ++i) {
    row += "," + std::to_string(i);
  }
  const auto table = Loaded(row + "]}\n" + kRecorded);
  const auto ids = Find(table, "long");
  ASSERT_EQ(ids.size(), 200'000U);
  for (std::uint32_t i = 0; i < ids.size(); ++i) {
    ASSERT_EQ(ids[i], i);
  }
  EXPECT_EQ(Find(table, "s:1"), (Ids{9}));
}

// M-092.
TEST(ReplayKey, IsWhatFollowsThePrefixOfTheFirstAnnotationThatHasIt) {
  const auto key = [](const std::vector<std::string>& annotations) {
    return std::string(ReplayKey(annotations).value_or("none"));
  };
  EXPECT_EQ(key({}), "none");
  EXPECT_EQ(key({"token_ids", "output_replay_id"}), "none");
  EXPECT_EQ(key({"x output_replay_id:a"}), "none");
  EXPECT_EQ(key({"query_instance_id:", "output_replay_id:a", "output_replay_id:b"}), "a");
  EXPECT_EQ(key({"output_replay_id:s:1"}), "s:1");
  EXPECT_EQ(key({"output_replay_id: a "}), " a ");
  EXPECT_EQ(key({"output_replay_id:"}), "");
}

class PlannedAnswers : public ReplayTableTest {
 protected:
  std::variant<Admitted, Refusal> Admit(const std::string& key,
                                        const std::string& max_tokens,
                                        bool prefill = false) {
    return worker::Admit(
        {},
        R"({"token_ids":[1],"stop_conditions":{"max_tokens":)" + max_tokens +
            R"(},"annotations":["output_replay_id:)" + key + "\"]}",
        {.role = prefill ? mocker::WorkerType::kPrefill : mocker::WorkerType::kDecode,
         .replay = &table_});
  }
  Admitted Take(const std::string& key, const std::string& max_tokens, bool prefill = false) {
    auto outcome = Admit(key, max_tokens, prefill);
    auto* admitted = std::get_if<Admitted>(&outcome);
    EXPECT_NE(admitted, nullptr);
    return admitted == nullptr ? Admitted{} : std::move(*admitted);
  }

  const ReplayTable table_ = Loaded(
      std::string(kRecorded) + R"({"request_id":"none","output_length":0,"output_token_ids":[]})");
};

// M-093.
TEST_F(PlannedAnswers, ReplaceTheBudgetInBothDirections) {
  const auto shorter = Take("explicit", "9");
  EXPECT_EQ(shorter.planned_tokens, (Ids{7, 8}));
  EXPECT_EQ(shorter.output_tokens_max, 2U);
  EXPECT_EQ(shorter.replay_miss, ReplayMiss::kNone);
  const auto longer = Take("explicit", "1");
  EXPECT_EQ(longer.output_tokens_max, 2U);
  EXPECT_EQ(Take("explicit", "0").output_tokens_max, 2U);
}

TEST_F(PlannedAnswers, StillNeedABudget) {
  const auto outcome = Admit("explicit", "null");
  ASSERT_TRUE(std::holds_alternative<Refusal>(outcome));
  EXPECT_EQ(std::get<Refusal>(outcome).text, "max_output_tokens must be specified for mocker");
}

TEST_F(PlannedAnswers, OfNoTokenAreRefused) {
  const auto outcome = Admit("none", "5");
  ASSERT_TRUE(std::holds_alternative<Refusal>(outcome));
  EXPECT_EQ(std::get<Refusal>(outcome).text,
            "live requests must generate at least one output token");
}

// M-095.
TEST_F(PlannedAnswers, ThatAreNotThereLeaveTheRequestAsItIs) {
  const auto unknown = Take("line:2", "4");
  EXPECT_EQ(unknown.planned_tokens, Ids{});
  EXPECT_EQ(unknown.output_tokens_max, 4U);
  EXPECT_EQ(unknown.replay_miss, ReplayMiss::kUnknownKey);
  const auto outcome = worker::Admit(
      {},
      R"({"token_ids":[1],"stop_conditions":{"max_tokens":4},"annotations":["output_replay_id:a"]})",
      {});
  ASSERT_TRUE(std::holds_alternative<Admitted>(outcome));
  EXPECT_EQ(std::get<Admitted>(outcome).replay_miss, ReplayMiss::kNoTable);
  EXPECT_EQ(std::get<Admitted>(outcome).output_tokens_max, 4U);
}

// M-096, as 1.6.1; 1.3.0 answers with a random token.
TEST_F(PlannedAnswers, OfAPrefillWorkerAreTheirFirstToken) {
  const auto taken = Take("explicit", "9", true);
  EXPECT_EQ(taken.planned_tokens, (Ids{7}));
  EXPECT_EQ(taken.output_tokens_max, 1U);
  const auto empty = Take("none", "9", true);
  EXPECT_EQ(empty.planned_tokens, Ids{});
  EXPECT_EQ(empty.output_tokens_max, 1U);
}

}  // namespace
}  // namespace understudy::worker
