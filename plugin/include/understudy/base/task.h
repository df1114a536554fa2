// A move-only callable without arguments: what is posted between threads.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

namespace understudy {

class Task {
 public:
  Task() = default;
  template <class F>
  requires(!std::is_same_v<std::decay_t<F>, Task> && std::is_invocable_v<std::decay_t<F>&>) Task(
      F&& function)  // NOLINT(google-explicit-constructor): lambdas convert, as with std::function
      : body_(std::make_unique<Holder<std::decay_t<F>>>(std::forward<F>(function))) {}

  explicit operator bool() const { return body_ != nullptr; }
  void operator()() { body_->Run(); }

 private:
  struct Body {
    virtual ~Body() = default;
    virtual void Run() = 0;
  };
  template <class F>
  struct Holder final : Body {
    explicit Holder(F f) : function(std::move(f)) {}
    void Run() override { function(); }
    F function;
  };
  std::unique_ptr<Body> body_;
};

}  // namespace understudy
