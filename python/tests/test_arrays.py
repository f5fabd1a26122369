"""Arrays: what comes in from other libraries and what goes out to them, against NumPy."""
import gc
import unittest
import weakref

import numpy
import sluice

TYPES = ("float32", "float64", "float16", "int32", "int64", "uint8")


class Incoming(unittest.TestCase):
    def test_every_type_and_stride(self):
        rng = numpy.random.default_rng(1)
        for name in TYPES:
            for shape in ((), (0,), (5,), (3, 4), (2, 3, 4), (1, 0, 2)):
                whole = (rng.random(shape) * 100).astype(name)
                for values in (whole, whole.T, whole[::-1] if shape else whole, whole[..., ::2] if shape else whole):
                    with self.subTest(dtype=name, shape=values.shape, strides=values.strides):
                        made = sluice.array(values)
                        self.assertEqual((made.shape, made.dtype_name), (values.shape, name))
                        numpy.testing.assert_array_equal(made.asnumpy(), values)

    def test_what_is_no_numpy_array(self):
        for value, expected in (([[1, 2], [3, 4]], [[1, 2], [3, 4]]), (2.5, 2.5), (memoryview(bytes([1, 2, 3])), [1, 2, 3]),
                                (range(3), [0, 1, 2])):
            with self.subTest(value=value):
                numpy.testing.assert_array_equal(sluice.array(value).asnumpy(), numpy.asarray(expected))

    def test_a_copy_is_taken(self):
        values = numpy.ones(3, numpy.float32)
        made = sluice.array(values)
        values[:] = 7
        numpy.testing.assert_array_equal(made.asnumpy(), [1, 1, 1])

    def test_dtype(self):
        self.assertEqual(sluice.array([1, 2], dtype="int64").dtype_name, "int64")
        self.assertEqual(sluice.array(numpy.float64([1]), dtype=numpy.float32).dtype_name, "float32")
        half = sluice.array([1.5, 2], dtype="bfloat16")
        self.assertEqual(half.dtype_name, "bfloat16")
        with self.assertRaisesRegex(sluice.Unimplemented, "astype"):
            half.asnumpy()
        numpy.testing.assert_array_equal(half.astype("float32").asnumpy(), [1.5, 2])

    def test_refused(self):
        for value, text in ((numpy.zeros(2, numpy.complex64), "complex64"), (numpy.array([None, 1]), "no array"),
                            (numpy.zeros(2, bool), "bool"), (numpy.array(["a"]), "no array"), (numpy.zeros(2, numpy.uint32), "uint32")):
            with self.subTest(dtype=value.dtype), self.assertRaisesRegex(ValueError, text):
                sluice.array(value)


class Outgoing(unittest.TestCase):
    def test_a_view_is_the_arrays_own_memory(self):
        made = sluice.array([[1, 2], [3, 4]])
        view = made.view(writable=True)
        view[1, 0] = 9
        numpy.testing.assert_array_equal((made + 1).asnumpy(), [[2, 3], [10, 5]])
        made += 1
        numpy.testing.assert_array_equal(numpy.asarray(made), [[2, 3], [10, 5]])
        self.assertEqual(numpy.asarray(made).ctypes.data, view.ctypes.data)

    def test_views_are_read_only_unless_asked(self):
        for view in (sluice.ones(3).view(), numpy.asarray(sluice.ones(3))):
            with self.assertRaises(ValueError):
                view[0] = 2

    def test_a_view_outlives_its_array(self):
        view = sluice.full((1000,), 3).view()
        gc.collect()
        sluice.full((1000,), 5).wait_to_read()
        numpy.testing.assert_array_equal(view, numpy.full(1000, 3))

    def test_dlpack(self):
        made = sluice.array(numpy.arange(6, dtype=numpy.int64).reshape(2, 3))
        numpy.testing.assert_array_equal(numpy.from_dlpack(made), [[0, 1, 2], [3, 4, 5]])

    def test_torch(self):
        try:
            import torch
        except ImportError:
            self.skipTest("PyTorch is not installed")
        tensor = torch.arange(6, dtype=torch.float32).reshape(2, 3)
        numpy.testing.assert_array_equal(sluice.array(tensor.T).asnumpy(), tensor.T.numpy())
        numpy.testing.assert_array_equal(sluice.array(tensor.requires_grad_()).asnumpy(), tensor.detach().numpy())
        numpy.testing.assert_array_equal(torch.from_dlpack(sluice.array([1, 2])).numpy(), [1, 2])

    def test_repr_and_scalars(self):
        self.assertEqual(repr(sluice.array([[1, 2]])), "[[1, 2]] float32 [1, 2] on cpu(0)")
        self.assertEqual(float(sluice.array([2.5])), 2.5)
        self.assertEqual(sluice.array([2**53], dtype="int64").item(), 2**53)
        with self.assertRaisesRegex(ValueError, "shape"):
            float(sluice.ones(2))


class Operations(unittest.TestCase):
    def test_arithmetic(self):
        a, b = numpy.float32([1, 2, 3]), numpy.float32([4, 5, 6])
        x, y = sluice.array(a), sluice.array(b)
        for name, made, expected in (("+", x + y, a + b), ("-", x - y, a - b), ("*", x * y, a * b), ("/", x / y, a / b),
                                     ("1-", 1 - x, 1 - a), ("2/", 2 / x, 2 / a), ("neg", -x, -a), ("+1", x + 1, a + 1)):
            with self.subTest(name):
                numpy.testing.assert_allclose(made.asnumpy(), expected, rtol=1e-7)

    def test_items(self):
        a = numpy.arange(12, dtype=numpy.float32).reshape(4, 3)
        x = sluice.array(a)
        for index in (0, -1, slice(1, 3), slice(None), slice(3, 1)):
            numpy.testing.assert_array_equal(x[index].asnumpy(), a[index])
        x[1] = 5
        x[2:] = numpy.float32([[1, 2, 3], [4, 5, 6]])
        a[1], a[2:] = 5, [[1, 2, 3], [4, 5, 6]]
        numpy.testing.assert_array_equal(x.asnumpy(), a)
        x[...] = 0
        numpy.testing.assert_array_equal(x.asnumpy(), numpy.zeros((4, 3)))
        for index in (4, -5, slice(0, 4, 2), "a", (0, 1)):
            with self.subTest(index=index), self.assertRaises(IndexError):
                x[index]

    def test_contexts(self):
        x = sluice.array([1, 2], ctx=sluice.cpu(1))
        self.assertEqual(x.context, sluice.cpu(1))
        self.assertEqual(x.as_in_context(sluice.cpu(0)).context, sluice.cpu(0))
        with self.assertRaisesRegex(ValueError, r"cpu\(1\)"):
            x + sluice.array([1, 2])
        with self.assertRaises(sluice.Error):
            sluice.ones(2, ctx=sluice.gpu(99))

    def test_errors_are_of_python_too(self):
        with self.assertRaises(ValueError):
            sluice.ones(2) + sluice.ones(3)
        with self.assertRaises(ValueError):
            sluice.zeros((-1,))
        with self.assertRaises(MemoryError):
            sluice.empty((1 << 50,))


class Memory(unittest.TestCase):
    def test_no_object_is_held_after_a_copy(self):
        class Array(numpy.ndarray):
            pass
        values = numpy.zeros(4, numpy.float32).view(Array)
        gone = weakref.ref(values)
        sluice.array(values)
        del values
        gc.collect()
        self.assertIsNone(gone())


if __name__ == "__main__":
    unittest.main()
