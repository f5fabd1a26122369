"""tools/check_layers.py finds what it is there to find."""
import pathlib
import shutil
import sys
import tempfile
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import check_layers  # noqa: E402


class CheckLayers(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = pathlib.Path(scratch.name)
        for folder in ("src", "include"):
            shutil.copytree(ROOT / folder, self.root / folder)

    def plant(self, path, line):
        file = self.root / path
        file.write_text(line + "\n" + file.read_text())
        return check_layers.violations(self.root)

    def test_the_project_is_clean(self):
        self.assertEqual(check_layers.violations(ROOT), [])
        self.assertEqual(check_layers.drawn_layers(ROOT), list(check_layers.LAYERS))

    def test_the_picture_is_held_to_the_code(self):
        text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
        drawn = self.root / "ARCHITECTURE.md"
        drawn.write_text(text, encoding="utf-8")
        self.assertEqual(check_layers.main([str(self.root)]), 0)
        drawn.write_text(text.replace(" 3 autograd     x  x  *", " 3 autograd     x  .  *"), encoding="utf-8")
        self.assertEqual(check_layers.main([str(self.root)]), 1)

    def test_planted_violations_are_found(self):
        for path, line, word in (
            ("src/base/env.cc", '#include "wire/messages.h"', "base/ may not include wire/"),
            ("src/server/shard.h", '#include "worker/client.h"', "server/ may not include worker/"),
            ("src/worker/client.h", '#include "scheduler/scheduler.h"', "worker/ may not include scheduler/"),
            ("src/server/shard.cc", "#include <zmq.h>", "stays in src/transport/zmq/"),
            ("src/tensor/devices.cc", "#include <dnnl.hpp>", "stays in src/tensor/cpu/"),
            ("src/tensor/devices.cc", "#include <cuda_runtime_api.h>", "stays in src/tensor/cuda/"),
            ("include/sluice/kvstore.h", '#include "tensor/stream.h"', "which is not public"),
        ):
            with self.subTest(path=path, line=line):
                before = (self.root / path).read_text()
                self.assertTrue(any(word in found for found in self.plant(path, line)), word)
                (self.root / path).write_text(before)

    def test_an_edge_that_no_file_uses_is_found(self):
        self.assertEqual(check_layers.unused_edges(ROOT), [])
        with unittest.mock.patch.dict(check_layers.LAYERS, {"optimizer": {"base", "tensor"}}):
            self.assertIn("optimizer/ may include tensor/, and no file does", check_layers.unused_edges(self.root)[0])

    def test_the_umbrella_has_every_header(self):
        self.assertEqual(check_layers.not_in_umbrella(self.root), [])
        for name in ("new.h", "nn/new.h"):
            (self.root / "include/sluice" / name).write_text("")
        self.assertEqual([found.split()[-1] for found in check_layers.not_in_umbrella(self.root)], ["sluice/new.h", "sluice/nn/new.h"])
        self.assertTrue(self.plant("src/base/env.cc", '#include "sluice/sluice.h"'))

    def test_one_file_names_a_transport(self):
        self.assertEqual(check_layers.named_transports(ROOT), [])
        for path, line in (("src/runtime/nodes.h", '#include "transport/zmq/loop.h"'), ("src/runtime/worker_node.h", "class ZmqLoop;"),
                           ("src/server/shard.cc", "// A ZmqDriver calls it.")):
            with self.subTest(path=path, line=line):
                self.plant(path, line)
                self.assertIn(path, check_layers.named_transports(self.root)[-1])

    def test_examples_include_public_headers_alone(self):
        shutil.copytree(ROOT / "examples", self.root / "examples")
        self.assertEqual(check_layers.private_includes_of_examples(self.root), [])
        example = self.root / "examples/kv_tour.cc"
        example.write_text('#include "base/strings.h"\n' + example.read_text())
        self.assertEqual(len(check_layers.private_includes_of_examples(self.root)), 1)

    def test_every_file_that_stands_in_has_its_twin(self):
        (self.root / "src/tensor/cuda/stream.cc").write_text("")
        self.assertEqual(check_layers.unlike_twins(self.root), [])
        (self.root / "src/tensor/no_cuda/nowhere_else.cc").write_text("")
        self.assertEqual(len(check_layers.unlike_twins(self.root)), 1)

    def test_every_kernel_is_in_files_of_one_name(self):
        (self.root / "src/tensor/cpu").mkdir(exist_ok=True)
        (self.root / "src/tensor/kernels.h").write_text("  virtual void Fill(const FillArgs& args) = 0;\n")
        (self.root / "src/tensor/cpu/copy.cc").write_text("void CpuKernels::Fill(const FillArgs& args) {}\n")
        (self.root / "src/tensor/cuda/copy.cu").write_text("void CudaKernels::Fill(const FillArgs& args) {}\n")
        self.assertEqual(check_layers.unlike_kernels(self.root), [])
        (self.root / "src/tensor/cuda/copy.cu").rename(self.root / "src/tensor/cuda/fill.cu")
        self.assertEqual(check_layers.unlike_kernels(self.root),
                         ["src/tensor/kernels.h: Fill is in src/tensor/cpu/ in copy and in src/tensor/cuda/ in fill"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
