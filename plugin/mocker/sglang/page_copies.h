// The complete pages that exist in a rank's pool.
#pragma once

#include "plugin/mocker/kv_cache/index_table.h"
#include "understudy/base/ids.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace understudy::mocker {

/// A page with one name (hash) may exist several times: prompts that are computed in the same pass
/// share nothing. Routers are told of names, not of copies: of the first that appears and the last
/// that goes. Copies can be chained to lists. Pure, not thread safe; memory grows with the number
/// of copies that ever existed at a time. Source: dynamo-mocker 1.3.0 sglang_backend.rs.
class PageCopies {
 public:
  /// `counted` false: nobody asks for first and last ones (no events).
  explicit PageCopies(bool counted) : counted_(counted) {}

  struct Added {
    std::uint32_t copy = kNoIndex;
    bool first = false;  ///< of its name
  };
  Added Add(BlockHash hash);
  /// True if it was the last one of its name.
  bool Remove(std::uint32_t copy);

  [[nodiscard]] BlockHash hash(std::uint32_t copy) const { return copies_[copy].hash; }
  [[nodiscard]] std::uint32_t next(std::uint32_t copy) const { return copies_[copy].next; }
  [[nodiscard]] std::uint32_t previous(std::uint32_t copy) const { return copies_[copy].previous; }
  /// `copy` is the last of its list from now on.
  void End(std::uint32_t copy) { copies_[copy].next = kNoIndex; }
  /// `copy` is the last of a list, `next` the first of another one.
  void Chain(std::uint32_t copy, std::uint32_t next) {
    copies_[copy].next = next;
    copies_[next].previous = copy;
  }

  [[nodiscard]] std::size_t size() const { return copies_.size() - unused_count_; }

  /// Of which there are copies, sorted; none if they are not counted. For tests.
  [[nodiscard]] std::vector<BlockHash> Names() const;

  /// Empty if all is consistent. For tests.
  [[nodiscard]] std::string CheckConsistency() const;

 private:
  struct Copy {
    BlockHash hash{};
    std::uint32_t name = kNoIndex;
    std::uint32_t next = kNoIndex;      ///< in a list of the owner's, or of unused entries
    std::uint32_t previous = kNoIndex;  ///< set when it is not the first of a list
  };
  struct Name {
    BlockHash hash{};
    std::uint32_t copies = 0;
  };
  [[nodiscard]] std::uint32_t NameOf(BlockHash hash);

  bool counted_;
  std::vector<Copy> copies_;
  std::uint32_t unused_ = kNoIndex;
  std::size_t unused_count_ = 0;
  std::vector<Name> names_;
  std::vector<std::uint32_t> unused_names_;
  IndexTable by_hash_;
};

}  // namespace understudy::mocker
