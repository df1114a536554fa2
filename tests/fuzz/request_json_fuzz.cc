#include "tests/fuzz/request_check.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  understudy::fuzz::CheckRequest(understudy::transport::PayloadCodec::kJson,
                                 understudy::fuzz::View(data, size));
  return 0;
}
