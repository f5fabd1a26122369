"""cmake/SluiceCuda.cmake: what it picks with, without and with old libraries. All of them are fakes."""
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROJECT = ROOT / "tests" / "tools" / "gpu_libraries"


class GpuLibraries(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.root = pathlib.Path(scratch.name)

    def library(self, name, header, prefix, version, patch="PATCH"):
        """The root of a fake library."""
        root = self.root / f"{name}-{version}"
        root.mkdir(exist_ok=True)
        macros = [f"#define {prefix}_{part} {number}\n"
                  for part, number in zip(("MAJOR", "MINOR", patch), version.split("."))]
        (root / header).write_text("".join(macros))
        (root / f"lib{name}.so").write_bytes(b"")
        return root

    def configure(self, *, toolkit=None, cudnn=None, nccl=None, **options):
        """CMake's exit code and output, in the one build folder: its compiler test runs once."""
        roots = {"CUDNN": self.root / "nowhere", "NCCL": self.root / "nowhere"}
        if cudnn:
            roots["CUDNN"] = self.library("cudnn", "cudnn_version.h", "CUDNN", cudnn, "PATCHLEVEL")
        if nccl:
            roots["NCCL"] = self.library("nccl", "nccl.h", "NCCL", nccl)
        arguments = ["-USLUICE_*", f"-DSLUICE_ROOT={ROOT}",
                     "-DCMAKE_FIND_ROOT_PATH_MODE_INCLUDE=ONLY",
                     "-DCMAKE_FIND_ROOT_PATH_MODE_LIBRARY=ONLY", f"-DCMAKE_FIND_ROOT_PATH={self.root}",
                     f"-DCMAKE_DISABLE_FIND_PACKAGE_CUDAToolkit={'OFF' if toolkit else 'ON'}",
                     f"-DCMAKE_MODULE_PATH={PROJECT}", f"-DFAKE_TOOLKIT={toolkit or ''}"]
        arguments += [f"-D{name}_ROOT={root}" for name, root in roots.items()]
        arguments += [f"-DSLUICE_{name}={value}" for name, value in options.items()]
        done = subprocess.run(["cmake", "-S", PROJECT, "-B", self.root / "build", *arguments], check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
        return done.returncode, " ".join(done.stdout.split())

    def test_all_there(self):
        code, text = self.configure(toolkit="13.0.88", cudnn="9.12.0", nccl="2.28.3")
        self.assertEqual(code, 0, text)
        self.assertIn("chosen: CUDA ON [toolkit 13.0.88, cuDNN 9.12.0", text)
        self.assertIn("NCCL ON [2.28.3", text)

    def test_nothing_there(self):
        code, text = self.configure()
        self.assertEqual(code, 0, text)
        self.assertIn("chosen: CUDA OFF [none (CUDA toolkit: no nvcc", text)
        self.assertIn("NCCL OFF [none (NCCL works on GPUs", text)

    def test_demanded_and_not_there(self):
        code, text = self.configure(CUDA="ON")
        self.assertNotEqual(code, 0)
        for words in ("SLUICE_CUDA is ON", "CUDA toolkit: no nvcc", "cuDNN: no cudnn_version.h", "CUDNN_ROOT",
                      "cuda-toolkit-13-0"):
            self.assertIn(words, text)
        code, text = self.configure(toolkit="13.0.88", cudnn="9.12.0", NCCL="ON")
        self.assertNotEqual(code, 0)
        self.assertIn("SLUICE_NCCL is ON", text)
        self.assertIn("no nccl.h with libnccl.so", text)

    def test_older_than_the_floor_counts_as_missing(self):
        for toolkit, cudnn, words in (("12.9.1", "9.12.0", "CUDA toolkit: 12.9.1 is older than 13"),
                                      ("13.0.88", "8.9.7", "cuDNN: 8.9.7 in"),
                                      ("13.0.88", None, "cuDNN: no cudnn_version.h")):
            with self.subTest(words=words):
                code, text = self.configure(toolkit=toolkit, cudnn=cudnn, nccl="2.28.3")
                self.assertEqual(code, 0, text)
                self.assertIn("chosen: CUDA OFF", text)
                self.assertIn(words, text)
                self.assertIn("NCCL OFF", text)

    def test_off_does_not_look(self):
        code, text = self.configure(toolkit="13.0.88", cudnn="9.12.0", nccl="2.28.3", CUDA="OFF", NCCL="OFF")
        self.assertEqual(code, 0, text)
        self.assertIn("chosen: CUDA OFF [not looked for (SLUICE_CUDA=OFF)] NCCL OFF [not looked for", text)

    def test_another_word_is_refused(self):
        code, text = self.configure(CUDA="maybe")
        self.assertNotEqual(code, 0)
        self.assertIn("SLUICE_CUDA is 'maybe'; use AUTO, ON or OFF", text)


if __name__ == "__main__":
    unittest.main()
