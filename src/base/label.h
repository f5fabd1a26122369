// What something is called in messages: a literal, which is never copied, or a text that its copies share.
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
  // Text that lives as long as the program, as literals do.
  Label(const char* literal) : text_(literal) {}       // NOLINT(google-explicit-constructor)
  Label(std::string_view literal) : text_(literal) {}  // NOLINT(google-explicit-constructor)
  // Any other text.
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
