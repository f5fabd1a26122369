"""sluice.torch's tables of embeddings beside dense tables in one process."""
import unittest

import numpy
import sluice

try:
    import torch
    import torch_embedding_job as job
    from torch_job import Fails, several
except ImportError:
    raise unittest.SkipTest("PyTorch is not installed") from None

LIMIT = 120  # seconds


class Tables(unittest.TestCase):
    def check(self, kind, found):
        """Rows that are those of a dense table that is updated lazily, and the head's parameters."""
        start, end, head = found
        expected, expected_head = job.dense(kind, start)
        self.assertGreater(numpy.abs(expected - start).max(), 0.1)
        numpy.testing.assert_allclose(end, expected, atol=1e-5)
        for a, b in zip(head, expected_head):
            numpy.testing.assert_allclose(a, b, atol=1e-5)

    def test_one_worker(self):
        calls = [(job.on_servers, ("sum", "dist_sync")), (job.on_servers, ("sum", "dist_async"))]
        for found in sluice.run(several, (calls,), workers=1, timeout=LIMIT)[0]:
            self.check("sum", found)

    def test_workers_on_one_host(self):
        for found in sluice.run(job.on_servers, ("embedding", "dist_sync"), workers=4, servers=2, timeout=LIMIT, env={"SLUICE_TRANSPORT": "shm"}):
            self.check("embedding", found)

    def test_two_workers(self):
        calls = [(job.on_servers, ("mean", "dist_sync")), (job.uneven, ()), (job.in_two_passes, ()), (job.asynchronous, ()), (job.features, ())]
        for rank, (mean, uneven, passes, asynchronous, features) in enumerate(sluice.run(several, (calls,), workers=2, servers=2, timeout=LIMIT)):
            with self.subTest(rank=rank):
                self.check("mean", mean)
                self.check_uneven(rank, *uneven)
                rows, refused = passes
                self.assertEqual(rows, [0.0, -1.0, -2.0, -1.0, -2.0])
                self.assertIn("prefetch takes the ids of the next forward", refused)
                self.assertEqual(asynchronous, [-3.0, -3.0, -6.0, 0.0])  # each push is a step of its own, and the last row the padding
                bags, after = features
                self.assertEqual(bags, {"user": [[1.0, 1.0]] * 2, "item": [[2.0, 2.0], [1.0, 1.0]]})
                self.assertEqual(after, {"user": [[1.0, 1.0]], "item": [[-3.0, -3.0]]})

    def check_uneven(self, rank, bags, first, second, known):
        """A worker reached no row, or not the table."""
        self.assertEqual(bags, [[1.0, 1.0], [1.0, 1.0]] if rank == 0 else [[0.0, 0.0], [0.0, 0.0]])
        self.assertEqual(first, [[1.0, 1.0], [0.0, 0.0]])  # two gradients of 1, divided by two workers
        self.assertEqual(second, [[0.5, 0.5], [1.0, 1.0]])
        self.assertEqual(known, [7, 99_999_999])


class Alone(unittest.TestCase):
    """In one process, without a job."""

    def test_a_table(self):
        import sluice.torch as st
        table = st.EmbeddingBag(6, 2, "alone", mode="mean", optimizer=sluice.SGD(1.0), init=sluice.RowInit.constant(1.0))
        weights = torch.tensor([[2.0, 4.0]])
        with self.assertRaisesRegex(ValueError, "mode is 'max'"):
            st.EmbeddingBag(6, 2, "other", mode="max")
        summed = st.EmbeddingBag(6, 2, "weighted", mode="sum", optimizer=sluice.SGD(1.0), init=sluice.RowInit.constant(1.0))
        self.assertEqual(summed(torch.tensor([[1, 2]]), per_sample_weights=weights).tolist(), [[6.0, 6.0]])
        with torch.no_grad():
            self.assertEqual(table(torch.tensor([[1, 2]])).tolist(), [[1.0, 1.0]])
        table(torch.tensor([[1, 2]])).sum().backward()
        self.assertEqual(table.pull(torch.tensor([1, 3])).tolist(), [[0.5, 0.5], [1.0, 1.0]])
        table.set(torch.tensor([3]), torch.tensor([[5.0, 6.0]]))
        self.assertEqual(table.pull(torch.tensor([3])).tolist(), [[5.0, 6.0]])
        self.assertEqual(table.known_ids().tolist(), [1, 2, 3])

    def test_wrong_arguments(self):
        import sluice.torch as st
        table = st.Embedding(6, 2, "refused")
        bags = st.EmbeddingBagCollection({"user": 5}, 2, "refused")
        offset = torch.tensor([0])
        for text, call in (("num_embeddings is 0", lambda: st.Embedding(0, 2, "none")),
                           ("padding_idx is 6; the table has 6 rows", lambda: st.Embedding(6, 2, "none", padding_idx=6)),
                           ("ids of table refused are torch.float32", lambda: table(torch.ones(2))),
                           ("6", lambda: table(torch.tensor([6]))),
                           ("-1", lambda: table(torch.tensor([-1]))),
                           ("from 0 to 5; it has 5 rows", lambda: bags({"user": (torch.tensor([0, 5]), offset)})),
                           ("feature 'shop'; the collection has user", lambda: bags({"shop": (torch.tensor([0]), offset)})),
                           ("no feature", lambda: bags({})),
                           ("the batch is a list", lambda: bags([1])),
                           ("there is no feature", lambda: st.EmbeddingBagCollection({}, 2, "none")),
                           ("'user' has 0 rows", lambda: st.EmbeddingBagCollection({"user": 0}, 2, "none"))):
            with self.subTest(text), self.assertRaisesRegex(ValueError, text):
                call()

    def test_a_backward_that_was_cut_off(self):
        import sluice.torch as st
        table = st.Embedding(6, 2, "cut off")
        made_first = Fails.apply(torch.ones(1, requires_grad=True))  # so that backward comes to it last
        with self.assertRaises(ArithmeticError):
            (table(torch.tensor([1])).sum() * made_first).backward()
        with self.assertRaisesRegex(RuntimeError, "cut it off"):
            table(torch.tensor([1]))


if __name__ == "__main__":
    unittest.main()
