// The name of something in messages: a literal, which is never copied, or a text that all copies share.
#pragma once

#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>

namespace sluice {

class Label {
 public:
  Label() = default;
  // `literal` must live as long as the program, as literals do; it is not copied.
  Label(const char* literal) : text_(literal) {}       // NOLINT(google-explicit-constructor)
  Label(std::string_view literal) : text_(literal) {}  // NOLINT(google-explicit-constructor)
  // Takes any other text; copies of the label share it.
  Label(std::string text)  // NOLINT(google-explicit-constructor)
      : owner_(std::make_shared<const std::string>(std::move(text))), text_(*owner_) {}

  std::string_view text() const { return text_; }
  operator std::string_view() const { return text_; }  // NOLINT(google-explicit-constructor)

 private:
  std::shared_ptr<const std::string> owner_;
  std::string_view text_;
};

inline std::ostream& operator<<(std::ostream& out, const Label& label) {
  return out << label.text();
}

}  // namespace sluice
