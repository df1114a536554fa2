// Builds the long answers to recovery queries, a step at a time, while events go on.
#pragma once

#include "understudy/transport/kv_query.h"
#include "worker/kv_relay/indexer.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace understudy::worker {

/// A range of the ring, or all blocks as they were at one moment with the id of the newest event at
/// that moment: whatever came later has a larger id. One at a time per rank. Pure.
class AnswerBuilder {
 public:
  static constexpr std::size_t kAnswerBytesMax = std::size_t{256} << 20U;
  static constexpr std::size_t kChainBlocksMax = 1024;  ///< of one event of a dump
  /// Times that a dump begins anew, because the tree was cleared or a part of it moved meanwhile.
  static constexpr int kRestartsMax = 8;

  enum class State : std::uint8_t { kMore, kDone, kFailed };

  /// `plan` is a range or a dump.
  AnswerBuilder(Indexer& indexer,
                WorkerId worker_id,
                DpRank dp_rank,
                transport::PayloadCodec codec,
                transport::KvAnswerForm form,
                const Indexer::Plan& plan);
  ~AnswerBuilder();
  AnswerBuilder(const AnswerBuilder&) = delete;
  AnswerBuilder& operator=(const AnswerBuilder&) = delete;

  /// Writes about `blocks` blocks.
  [[nodiscard]] State Advance(std::size_t blocks);
  /// After kDone: the data frame in pieces.
  [[nodiscard]] std::vector<std::string> Take();

  [[nodiscard]] bool is_dump() const { return dumping_; }
  [[nodiscard]] std::uint64_t last_event_id() const { return last_id_; }
  [[nodiscard]] std::string_view problem() const { return problem_; }  ///< after kFailed

 private:
  void BeginDump();
  void EndWalks();
  State AdvanceRange(std::size_t blocks);
  State AdvanceDump(std::size_t blocks);
  State Failed(std::string_view problem);

  Indexer& indexer_;
  transport::PayloadCodec codec_;
  transport::KvAnswerForm form_;
  transport::KvAnswerWriter writer_;
  transport::RouterEvent event_;  ///< scratch; worker and rank stay
  BlockTree::Chain chain_;        ///< scratch
  bool dumping_ = false;
  std::uint64_t next_id_ = 0, last_id_ = 0;
  struct Walk {
    transport::StorageTier tier{};
    BlockTree* tree = nullptr;
  };
  std::vector<Walk> walks_;
  std::size_t walk_ = 0;
  std::uint64_t synthetic_id_ = 0;
  int restarts_ = 0;
  std::string_view problem_;
};

}  // namespace understudy::worker
