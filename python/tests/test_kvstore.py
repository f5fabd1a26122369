"""Stores of one process: the calls, their notations, and what they refuse."""
import tempfile
import unittest

import numpy
import sluice


def full(value, shape=(2, 3)):
    return numpy.full(shape, value, numpy.float32)


class Dense(unittest.TestCase):
    def setUp(self):
        self.kv = sluice.create("local")

    def test_push_and_pull(self):
        self.kv.init("w", full(0))
        self.kv.push("w", full(2))
        numpy.testing.assert_array_equal(self.kv.pull("w").asnumpy(), full(2))
        out = full(9)
        self.assertIs(self.kv.pull("w", out=out), out)
        numpy.testing.assert_array_equal(out, full(2))

    def test_values_of_several_devices_are_summed(self):
        self.kv.init(3, full(0))
        self.kv.push(3, [full(1), sluice.array(full(2), ctx=sluice.cpu(1))])
        outs = [sluice.empty((2, 3)), full(0)]
        self.kv.pull(3, out=outs)
        for out in outs:
            numpy.testing.assert_array_equal(numpy.asarray(out), full(3))

    def test_lists_of_keys(self):
        self.kv.init(["a", "b"], [full(0), full(0, (4,))])
        self.kv.push(["a", "b"], [full(1), [full(1, (4,)), full(2, (4,))]])
        a, b = self.kv.pull(["a", "b"])
        numpy.testing.assert_array_equal(a.asnumpy(), full(1))
        numpy.testing.assert_array_equal(b.asnumpy(), full(3, (4,)))

    def test_pushpull_in_place_and_into_another(self):
        self.kv.init("w", full(0))
        value = full(4)
        self.assertIs(self.kv.pushpull("w", value), value)
        numpy.testing.assert_array_equal(value, full(4))
        out = sluice.empty((2, 3))
        self.kv.pushpull("w", full(5), out)
        numpy.testing.assert_array_equal(out.asnumpy(), full(5))

    def test_broadcast_and_set(self):
        value = full(3)
        self.kv.broadcast("w", value)
        self.kv.set("w", full(8))
        numpy.testing.assert_array_equal(self.kv.pull("w").asnumpy(), full(8))

    def test_an_array_may_change_after_its_push(self):
        self.kv.init("w", full(0, (1000, 1000)))
        value = full(1, (1000, 1000))
        self.kv.push("w", value)
        value[:] = 5
        numpy.testing.assert_array_equal(self.kv.pull("w").asnumpy(), full(1, (1000, 1000)))

    def test_optimizers(self):
        for optimizer, expected in ((sluice.SGD(0.5), 0.5), (sluice.SGD(0.5, momentum=0.9), 0.5), (sluice.AdaGrad(0.5, epsilon=0), 0.5),
                                    (sluice.SGD(0.5, multipliers={"w": (2.0, 1.0)}), 0.0), (sluice.Accumulate(), 2.0),
                                    (sluice.SGD(schedule=sluice.Schedule("factor", factor=0.5, step=1), learning_rate=0.5), 0.5)):
            with self.subTest(optimizer=optimizer):
                kv = sluice.create("local")
                kv.init("w", full(1))
                kv.set_optimizer(optimizer)
                kv.push("w", full(1))
                numpy.testing.assert_allclose(kv.pull("w").asnumpy(), full(expected), rtol=1e-6)
                self.assertEqual(kv.num_updates("w"), 1)

    def test_states_go_to_a_file_and_back(self):
        with tempfile.TemporaryDirectory() as folder:
            weights = []
            for is_resumed in (False, True):
                kv = sluice.create("local")
                kv.init("w", full(1))
                kv.set_optimizer(sluice.SGD(0.5, momentum=0.9))
                if is_resumed:
                    kv.load_states(f"{folder}/states")
                else:
                    kv.push("w", full(1))
                    kv.save_states(f"{folder}/states")
                    kv.set("w", full(1))
                kv.push("w", full(1))
                weights.append(kv.pull("w").asnumpy())
            numpy.testing.assert_array_equal(*weights)

    def test_updater(self):
        def add(key, gradient, weight):
            self.assertEqual(key, "w")
            weight += gradient
        self.kv.init("w", full(1))
        self.kv.set_updater(add)
        self.kv.push("w", [full(2), full(3)])
        numpy.testing.assert_array_equal(self.kv.pull("w").asnumpy(), full(6))

    def test_what_an_updater_raises_comes_back(self):
        class Mine(Exception):
            pass

        def fail(*_):
            raise Mine("seven")
        self.kv.init("w", full(1))
        self.kv.set_updater(fail)
        with self.assertRaisesRegex(Mine, "seven"):
            self.kv.push("w", full(1))
            self.kv.wait_all()
        self.kv.set_updater(None)

    def test_refused(self):
        self.kv.init("w", full(1))
        read_only = full(0)
        read_only.flags.writeable = False
        for kind, text, call in (
                (sluice.FailedPrecondition, "key v", lambda: self.kv.push("v", full(1))),
                (KeyError, "init", lambda: self.kv.pull("v")),
                (sluice.AlreadyExists, "w", lambda: self.kv.init("w", full(1))),
                (ValueError, r"float32 \[3\]", lambda: self.kv.push("w", full(1, (3,)))),
                (ValueError, "float64", lambda: self.kv.push("w", full(1).astype(numpy.float64))),
                (ValueError, "strides", lambda: self.kv.pull("w", out=full(1, (3, 2)).T)),
                (ValueError, "may not be written", lambda: self.kv.pull("w", out=read_only)),
                (ValueError, "no array", lambda: self.kv.push("w", "text")),
                (ValueError, "no array", lambda: self.kv.push("w", None)),
                (ValueError, "key", lambda: self.kv.push(None, full(1))),
                (ValueError, "key", lambda: self.kv.push(True, full(1))),
                (ValueError, "2 keys and 1 values", lambda: self.kv.push(["a", "b"], [full(1)])),
                (ValueError, "a list as well", lambda: self.kv.push(["a"], full(1))),
                (ValueError, "one value", lambda: self.kv.init("u", [full(1), full(1)])),
                (TypeError, "sluice.SGD", lambda: self.kv.set_optimizer("sgd")),
                (ValueError, "learning_rate", lambda: self.kv.set_optimizer(sluice.SGD(-1.0))),
                (ValueError, "steps", lambda: self.kv.set_optimizer(sluice.SGD(0.1, schedule=sluice.Schedule(steps="no")))),
                (ValueError, "dist_sync", lambda: sluice.create("dits_sync")),
                (sluice.FailedPrecondition, "launch", lambda: sluice.create("dist_sync")),
                (ValueError, "group", lambda: self.kv.barrier("workers and servers")),
                (ValueError, "timeout", lambda: self.kv.wait_all(timeout=-1)),
                (sluice.FailedPrecondition, "", lambda: self.kv.set_compression(sluice.Compression("2bit"))),
                (ValueError, "3bit", lambda: self.kv.set_compression(sluice.Compression("3bit")))):
            with self.subTest(text), self.assertRaisesRegex(kind, text):
                call()
        numpy.testing.assert_array_equal(self.kv.pull("w").asnumpy(), full(1))


class RowSparse(unittest.TestCase):
    def test_rows(self):
        kv = sluice.create("local")
        kv.init_rows("table", (100, 2), init=sluice.RowInit.constant(1))
        kv.set_optimizer(sluice.SGD(0.5))
        kv.push_rows("table", numpy.array([7, 3, 7]), full(1, (3, 2)))
        numpy.testing.assert_allclose(kv.pull_rows("table", numpy.array([[3, 7], [0, 3]])).asnumpy(),
                                      numpy.float32([[[0.5] * 2, [0] * 2], [[1] * 2, [0.5] * 2]]))
        self.assertEqual(list(kv.row_ids("table").asnumpy()), [3, 7])
        kv.set_rows("table", numpy.array([5]), full(4, (1, 2)))
        out = full(0, (1, 2))
        kv.pull_rows("table", numpy.array([5]), out)
        numpy.testing.assert_array_equal(out, full(4, (1, 2)))
        kv.push_rows("table", numpy.array([], numpy.int64), full(0, (0, 2)))
        with self.assertRaisesRegex(ValueError, "100"):
            kv.pull_rows("table", numpy.array([100]))


if __name__ == "__main__":
    unittest.main()
