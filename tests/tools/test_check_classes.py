"""tools/check_classes.py finds what it is there to find."""
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import check_classes  # noqa: E402


def methods(text):
    """By class, the names of its methods."""
    return {one.name: one.methods for one in check_classes.classes(text)}


def members(count):
    return "".join(f"  void Method{i}();\n" for i in range(count))


class CheckClasses(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = pathlib.Path(scratch.name)
        (self.root / "src").mkdir()

    def found(self, text, allowed=(), by_name=()):
        (self.root / "src/a.h").write_text(text)
        with (mock.patch.object(check_classes, "ALLOWED", dict.fromkeys(allowed, "a reason")),
              mock.patch.object(check_classes, "BY_NAME", dict.fromkeys(by_name, "a reason"))):
            return check_classes.findings(self.root)

    def test_the_project_is_clean(self):
        self.assertEqual(check_classes.findings(ROOT), [])

    def test_a_class_of_31_methods_is_found(self):
        self.assertEqual(self.found(f"class A {{\n{members(30)}}};\n"), [])
        self.assertEqual(self.found(f"\nclass A {{\n{members(31)}}};\n"),
                         ["src/a.h:2: A has 31 methods; at most 30: cut it into several"])

    def test_a_class_on_the_list_may_have_more_and_an_entry_that_is_not_needed_is_found(self):
        large = f"namespace sluice::worker {{\nclass A {{\n{members(31)}}};\n}}\n"
        self.assertEqual(self.found(large, allowed=["worker::A"]), [])
        self.assertIn("worker::A has 31 methods", self.found(large, allowed=["A"])[0])
        self.assertEqual(self.found("class A {};\n", allowed=["A"]),
                         ["tools/check_classes.py: no A has more than 30 methods; take it out of ALLOWED"])

    def test_overloads_of_a_class_of_the_public_api_count_once(self):
        overloads = f"class A {{\n{members(30)}  void Method0(int);\n}};\n"
        self.assertEqual(self.found(overloads, by_name=["A"]), [])
        self.assertIn("A has 31 methods", self.found(overloads)[0])
        self.assertIn("A has 31 methods", self.found(f"class A {{\n{members(31)}}};\n", by_name=["A"])[0])
        self.assertEqual(self.found("class A {};\n", by_name=["A"]),
                         ["tools/check_classes.py: no A has more than 30 methods; take it out of BY_NAME"])

    def test_what_counts(self):
        self.assertEqual(methods("""
class A final : public B<int>, private C {
 public:
  explicit A(int a) : a_{a}, b_(a) {}
  template <typename T> requires std::is_same_v<T, int>
  A(T a);
  virtual ~A() { if (a_) { F(); } }
  bool operator()(int) const;
  A& operator=(const A& other);
  explicit operator bool() const noexcept { return true; }
  std::map<int, std::vector<int>> Values(std::function<void(int)> f = {}) const;
  [[nodiscard]] static constexpr int Size() noexcept { return 1; }
  auto Trailing() -> int;
  int Guarded() SLUICE_REQUIRES(mutex_);
  virtual void Pure() = 0;
};"""), {"A": ["A", "A", "A", "operator ( )", "operator =", "operator bool", "Values", "Size", "Trailing", "Guarded", "Pure"]})

    def test_what_does_not_count(self):
        self.assertEqual(methods("""
struct B {
  using Base::Base;
  using F = void (*)(int);
  B() = default;
  B(const B&) = delete;
  friend bool operator==(const B& a, const B& b) { return a.x == b.x; }
  friend class C;
  static_assert(sizeof(int) == 4);
  SLUICE_DISALLOW_COPY(B);
  MOCK_METHOD(int, Mocked, (int), (const));
  // void Comment();
  /* void Comment(); */
  const char* text = "void Text();";
  const char* raw = R"(void Raw();)";
#define MACRO void Macro();
  int x = Call(1), y{Call(2)};
  int bits : 3;
  void (*pointer)(int);
  std::function<int(int)> function;
  std::array<int, (1 < 2) ? 1 : 2> array;
  alignas(64) int aligned;
  int counted SLUICE_GUARDED_BY(mutex) = 0;
  enum class E { kOne, kTwo = Call(1) };
};"""), {"B": []})

    def test_nested_and_local_classes_count_for_themselves(self):
        self.assertEqual(methods("""
namespace {
class A {
  struct Inner { void F(); void G(); } inner_;
  class Declared;
  enum class E;
  void H() { struct Local { void I(); }; }
};
}
template <class T> class Template<T*> { void J(); };
class A::Outside { void K(); };"""), {
            "A": ["H"], "A::Inner": ["F", "G"], "A::Local": ["I"], "Template": ["J"], "A::Outside": ["K"]})


if __name__ == "__main__":
    unittest.main(verbosity=2)
