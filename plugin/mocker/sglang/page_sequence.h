// The tokens of one request, as far as the cache needs them: its complete pages and the tokens of
// the last, incomplete one.
#pragma once

#include "plugin/mocker/sglang/page.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace understudy::mocker {

/// Tokens are kept until their page is complete; after that only the hashes matter, unless events
/// are to name the tokens. Hashes: see
/// block_hash.h (a block is a page).
class PageSequence {
 public:
  /// Starts over with `prompt`.
  void Assign(std::vector<std::uint32_t> prompt, std::uint32_t page_size, bool keep_tokens = false);

  /// Makes the prompt's pages, with room for `output_max` more tokens. Once; later calls do
  /// nothing. Apart from Assign because a request that only waits should not cost more than its
  /// prompt.
  void MakePages(std::uint64_t output_max);

  void Append(std::uint32_t token) {
    tail_.push_back(token);
    if (keeps_tokens_) {
      tokens_.push_back(token);
    }
    if (tail_.size() == page_size_) {
      CompletePage();
    }
  }

  /// The complete ones.
  [[nodiscard]] std::vector<Page>& pages() { return pages_; }
  [[nodiscard]] const std::vector<Page>& pages() const { return pages_; }
  /// All of them with `keep_tokens`, else none.
  [[nodiscard]] std::span<const std::uint32_t> tokens() const {
    return keeps_tokens_ ? std::span<const std::uint32_t>(tokens_)
                         : std::span<const std::uint32_t>();
  }
  /// Tokens after the last complete page, below the page size.
  [[nodiscard]] std::size_t tail_size() const { return tail_.size(); }

  /// Gives back memory when the request is over; keeps small buffers for the next one.
  void Clear();

 private:
  void CompletePage();

  std::vector<Page> pages_;
  std::vector<std::uint32_t> tokens_;  ///< the prompt, until MakePages; all if they are kept
  std::vector<std::uint32_t> tail_;
  std::uint32_t page_size_ = 1;
  bool keeps_tokens_ = false;
  bool made_ = false;
};

}  // namespace understudy::mocker
