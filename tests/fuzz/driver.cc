// Stands in for libFuzzer where the compiler has none: replays a corpus, then mutates it for about
// a second. usage: <name>_fuzz CORPUS_FOLDER [SEED [SECONDS]]
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <unistd.h>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

constexpr std::size_t kInputBytesMax = 64U << 10;

const std::string* running_input = nullptr;

/// An input that ends the process is printed in hex: it becomes a file of the corpus.
extern "C" void PrintInput(int signal) {
  constexpr char kHex[] = "0123456789abcdef";
  static char text[2 * kInputBytesMax + 1];
  std::size_t size = 0;
  if (running_input != nullptr) {
    for (const char byte : *running_input) {
      text[size++] = kHex[static_cast<unsigned char>(byte) >> 4U];
      text[size++] = kHex[static_cast<unsigned char>(byte) & 0x0FU];
    }
  }
  text[size++] = '\n';
  const ssize_t written = write(STDERR_FILENO, text, size);
  static_cast<void>(written);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void Run(const std::string& input) {
  running_input = &input;
  // A heap block of exactly this size: a sanitizer then sees every read beyond it.
  const std::vector<std::uint8_t> bytes(input.begin(), input.end());
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  running_input = nullptr;
}

std::vector<std::string> ReadCorpus(const char* folder) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> corpus;
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return corpus;
}

class Mutator {
 public:
  explicit Mutator(std::uint64_t seed) : random_(seed) {}

  std::string Mutate(const std::vector<std::string>& corpus) {
    std::string input = Pick(corpus);
    for (std::size_t steps = 1 + Below(4); steps > 0; --steps) {
      Step(input, corpus);
    }
    input.resize(std::min(input.size(), kInputBytesMax));
    return input;
  }

 private:
  std::size_t Below(std::size_t limit) { return limit == 0 ? 0 : random_() % limit; }
  const std::string& Pick(const std::vector<std::string>& corpus) {
    return corpus[Below(corpus.size())];
  }

  void Step(std::string& input, const std::vector<std::string>& corpus) {
    const std::size_t at = Below(input.size() + 1);
    const std::size_t length = Below(std::min<std::size_t>(input.size() - at, 32) + 1);
    switch (Below(7)) {
      case 0:
        input.resize(at);
        break;
      case 1:
        input.erase(at, length);
        break;
      case 2:
        input.insert(at, input.substr(Below(input.size() + 1), 1 + Below(64)));
        break;
      case 3: {
        const std::string& other = Pick(corpus);
        input.replace(at, length, other, Below(other.size() + 1), Below(64));
        break;
      }
      case 4:
        input.insert(at, 1 + Below(200), static_cast<char>(random_() & 0xffU));
        break;
      default:
        if (at < input.size()) {
          constexpr unsigned char kSharp[] = {
              0x00, 0x7f, 0x80, 0xff, 0xc1, 0xdd, '[', '{', '"', '\\'};
          input[at] =
              static_cast<char>(Below(2) == 0 ? kSharp[Below(sizeof(kSharp))] : random_() & 0xffU);
        }
    }
  }

  std::mt19937_64 random_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s CORPUS_FOLDER [SEED [SECONDS]]\n", argv[0]);
    return 2;
  }
  const std::vector<std::string> corpus = ReadCorpus(argv[1]);
  if (corpus.empty()) {
    std::fprintf(stderr, "%s is empty\n", argv[1]);
    return 2;
  }
  const std::uint64_t seed =
      argc > 2 ? std::strtoull(argv[2], nullptr, 10) : std::random_device()();
  const double seconds = argc > 3 ? std::strtod(argv[3], nullptr) : 1.0;
  std::printf("seed %llu, %zu files\n", static_cast<unsigned long long>(seed), corpus.size());
  for (const int signal : {SIGABRT, SIGSEGV, SIGFPE}) {
    std::signal(signal, PrintInput);
  }
  std::fflush(stdout);  // so that the seed is there when an input ends the process
  for (const std::string& input : corpus) {
    Run(input);
  }
  Mutator mutator(seed);
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  std::uint64_t runs = 0;
  while (std::chrono::steady_clock::now() < end) {
    Run(mutator.Mutate(corpus));
    ++runs;
  }
  std::printf("%llu inputs\n", static_cast<unsigned long long>(runs));
  return 0;
}
