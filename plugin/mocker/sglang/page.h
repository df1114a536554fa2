// One complete page of a request's tokens.
#pragma once

#include "plugin/mocker/kv_cache/index_table.h"
#include "understudy/base/ids.h"

#include <cstdint>

namespace understudy::mocker {

/// `copy` is the request's own copy of the page in PageCopies. kNoIndex: it has none, because the
/// page is in the tree (the request holds a lock on it there) or is not computed yet.
struct Page {
  BlockHash hash{};
  TokensHash tokens_hash{};
  std::uint32_t copy = kNoIndex;
};

}  // namespace understudy::mocker
