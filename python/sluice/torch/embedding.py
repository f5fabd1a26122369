"""Tables of embeddings that live on the servers: a worker holds only the rows of its batch.

forward() pulls the distinct rows of its ids into a leaf tensor, which the rest of the network takes as it would a weight. At
the end of backward() the rows' gradients are pushed, and the servers update these rows alone. In a synchronous store a push
is one round, in which every worker takes part: a table that this worker's backward did not reach pushes no rows, provided that
the backward reached another table or a parameter of a DistributedOptimizer.
"""
import weakref
from typing import Any, Iterable, Mapping, Optional, Sequence, Union

import torch

from ..errors import FailedPrecondition, InvalidArgument
from ..optim import AdaGrad, Optimizer, RowInit
from .process import new_store

_tables: "weakref.WeakSet[Table]" = weakref.WeakSet()
_is_reached = False  # by the backward that runs
_rounds = 0  # backward() that have ended since take_rounds()


def reach() -> None:
    """A hook calls it in each backward(), at whose end every table pushes once."""
    global _is_reached
    if _tables:
        _is_reached = True
        torch.autograd.Variable._execution_engine.queue_callback(end_backward)


def end_backward() -> None:
    """Runs at the end of backward, once for each call of reach() and more; the first does the work."""
    global _is_reached, _rounds
    if _is_reached:
        _is_reached = False
        _rounds += 1
        end_backwards(1)


def end_backwards(backwards: int) -> None:
    """Ends so many backward() for each table: those of other workers, in whose rounds this one takes part, or its own."""
    for _ in range(backwards):
        for table in sorted(_tables, key=lambda table: table._place):
            table._end_backward()


def take_rounds() -> int:
    """Returns how many backward() have ended since the last call."""
    global _rounds
    taken, _rounds = _rounds, 0
    return taken


def require_complete() -> None:
    """Throws where a step ends before a table has had the backward() that it was told."""
    for table in _tables:
        if table._passes_done > 0:
            raise FailedPrecondition(f"a step ends after {table._passes_done} of the {table.passes} backward() of table {table.name} "
                                     "(backward_passes_per_step); a table needs all of them")


class Table(torch.nn.Module):
    """A table of num_embeddings x embedding_dim on the servers, and this process's access to it.

    Thread safety: one thread runs forward and backward. All workers make their tables in one order.
    """

    _made = 0

    def __init__(self, num_embeddings: int, embedding_dim: int, name: str, optimizer: Optional[Optimizer] = None, init: Optional[RowInit] = None,
                 store: str = "dist_sync", backward_passes_per_step: int = 1) -> None:
        super().__init__()
        for what, value in (("num_embeddings", num_embeddings), ("embedding_dim", embedding_dim), ("backward_passes_per_step", backward_passes_per_step)):
            if value < 1:
                raise InvalidArgument(f"{what} is {value}; it is at least 1")
        self.num_embeddings, self.embedding_dim, self.name, self.passes = num_embeddings, embedding_dim, name, backward_passes_per_step
        self._place = Table._made
        Table._made += 1
        self._store = new_store(store)
        self._store.init_rows(name, [num_embeddings, embedding_dim], init=RowInit.normal(0, 0.01) if init is None else init)
        self._store.set_optimizer(AdaGrad(0.01) if optimizer is None else optimizer)
        self._is_sync = "async" not in store
        self._passes_done = 0
        self._is_unfinished = False  # a backward has reached the table, and has not ended
        self._gradients: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._prefetched: Optional[tuple[torch.Tensor, torch.Tensor, Any]] = None
        _tables.add(self)

    def extra_repr(self) -> str:
        return f"{self.num_embeddings}, {self.embedding_dim}, name={self.name!r}"

    def pull(self, ids: torch.Tensor) -> torch.Tensor:
        """Returns the rows `ids` (int64 {n}) as float32 {n, embedding_dim}, without a gradient."""
        rows = torch.empty(ids.numel(), self.embedding_dim)
        self._store.pull_rows(self.name, self._checked(ids).reshape(-1), out=rows)
        return rows

    def known_ids(self) -> torch.Tensor:
        """Returns the ids of all rows that were ever pushed or set, ascending: the rows to pull in order to save the table."""
        return torch.from_numpy(self._store.row_ids(self.name).asnumpy())

    def set(self, ids: torch.Tensor, rows: torch.Tensor) -> None:
        """Overwrites rows, for example with saved ones. On dist stores rank 0's call counts, and no worker may run backward
        meanwhile (sluice.torch.barrier)."""
        self._store.set_rows(self.name, self._checked(ids).reshape(-1), rows.detach().float().contiguous())

    def save_states(self, path: str) -> None:
        """Rank 0 writes the optimizer's states of the rows as a safetensors file."""
        self._store.save_states(path)

    def load_states(self, path: str) -> None:
        """Rank 0 reads them again. No worker may run backward meanwhile (sluice.torch.barrier)."""
        self._store.load_states(path)

    def prefetch(self, ids: torch.Tensor) -> None:
        """Begins to pull the rows of the next forward, whose ids are these in any order. Prefetched before this step's
        backward, they are one step old when they are used."""
        distinct = torch.unique(self._checked(ids))
        rows = torch.empty(distinct.numel(), self.embedding_dim)
        self._prefetched = (distinct, rows, self._store.pull_rows_async(self.name, distinct, rows) if distinct.numel() > 0 else None)

    def _checked(self, ids: torch.Tensor) -> torch.Tensor:
        if ids.is_floating_point() or ids.is_complex() or ids.dtype == torch.bool:
            raise InvalidArgument(f"ids of table {self.name} are {ids.dtype}; they are integers")
        return ids.detach().to(device="cpu", dtype=torch.int64)

    def _rows(self, ids: torch.Tensor, padding: Optional[int] = None) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns the distinct rows of `ids` as a leaf {n, embedding_dim}, and ids' places in it. `padding` is zeros, and gets no
        gradient."""
        if self._is_unfinished:
            raise FailedPrecondition(f"table {self.name} is used while a backward() that has reached it has not ended: an exception has cut it "
                                     "off, and the job cannot go on, since the other workers wait for its rows")
        distinct, places = torch.unique(self._checked(ids), return_inverse=True)
        leaf = self._take_prefetched(distinct)
        if leaf is None:
            leaf = self.pull(distinct)
        if padding is not None:
            leaf[distinct == padding] = 0
        if torch.is_grad_enabled():
            leaf.requires_grad_()
            leaf.register_hook(lambda gradient: self._on_gradient(distinct, padding, gradient))
        return leaf, places

    def _take_prefetched(self, distinct: torch.Tensor) -> Optional[torch.Tensor]:
        if self._prefetched is None:
            return None
        ids, rows, pending = self._prefetched
        self._prefetched = None
        if pending is not None:
            pending.wait()
        if not torch.equal(ids, distinct):
            raise InvalidArgument(f"table {self.name} has prefetched {ids.numel()} rows, and forward takes {distinct.numel()} others; prefetch "
                                  "takes the ids of the next forward")
        return rows

    def _on_gradient(self, ids: torch.Tensor, padding: Optional[int], gradient: torch.Tensor) -> None:
        """Runs in backward, for each forward that it goes back through."""
        if padding is not None:
            others = ids != padding
            ids, gradient = ids[others], gradient[others]
        self._is_unfinished = True
        self._gradients.append((ids, gradient.detach().clone()))  # autograd adds to it, should the graph be kept
        reach()

    def _end_backward(self) -> None:
        self._is_unfinished = False
        self._passes_done += 1
        if self._passes_done < self.passes:
            return
        self._passes_done = 0
        reached, self._gradients = self._gradients, []
        if not reached and not self._is_sync:
            return
        ids = torch.cat([ids for ids, _ in reached]) if reached else torch.empty(0, dtype=torch.int64)
        rows = torch.cat([rows for _, rows in reached]).float() if reached else torch.empty(0, self.embedding_dim)
        # A push of an async store is a step of its own.
        self._store.push_rows(self.name, ids, rows, divisor=self._store.num_workers if self._is_sync else 1)


class Embedding(Table):
    """torch.nn.Embedding on the servers: forward(ids of any shape) gives {..., embedding_dim}.

    Gradients are averaged over all workers; `optimizer` (AdaGrad(0.01) by default) updates the rows that a step has touched,
    and no others. A row that was never touched is what `init` says (RowInit.normal(0, 0.01) by default). With
    store="dist_async" each worker's push is a step of its own.
    """

    def __init__(self, num_embeddings: int, embedding_dim: int, name: str, padding_idx: Optional[int] = None, optimizer: Optional[Optimizer] = None,
                 init: Optional[RowInit] = None, store: str = "dist_sync", backward_passes_per_step: int = 1) -> None:
        super().__init__(num_embeddings, embedding_dim, name, optimizer, init, store, backward_passes_per_step)
        self.padding_idx = _padding(padding_idx, num_embeddings)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        leaf, places = self._rows(ids, self.padding_idx)
        return torch.nn.functional.embedding(places, leaf)


class EmbeddingBag(Table):
    """torch.nn.EmbeddingBag on the servers: sums or means of rows. forward(ids {n}, offsets {bags}) or forward(ids {bags, n})
    gives {bags, embedding_dim}. Everything else is as Embedding says."""

    def __init__(self, num_embeddings: int, embedding_dim: int, name: str, mode: str = "mean", padding_idx: Optional[int] = None,
                 optimizer: Optional[Optimizer] = None, init: Optional[RowInit] = None, store: str = "dist_sync",
                 backward_passes_per_step: int = 1) -> None:
        if mode not in ("sum", "mean"):
            raise InvalidArgument(f"mode is {mode!r}; it is 'sum' or 'mean'")
        super().__init__(num_embeddings, embedding_dim, name, optimizer, init, store, backward_passes_per_step)
        self.mode, self.padding_idx = mode, _padding(padding_idx, num_embeddings)

    def forward(self, ids: torch.Tensor, offsets: Optional[torch.Tensor] = None, per_sample_weights: Optional[torch.Tensor] = None) -> torch.Tensor:
        leaf, places = self._rows(ids, self.padding_idx)
        return _bagged(leaf, places, ids, offsets, self.mode, per_sample_weights, self.padding_idx)


def _padding(row: Optional[int], rows: int) -> Optional[int]:
    """The padding's row. A negative one counts from the end, as in PyTorch."""
    if row is not None and not -rows <= row < rows:
        raise InvalidArgument(f"padding_idx is {row}; the table has {rows} rows")
    return row if row is None or row >= 0 else rows + row


def _bagged(leaf: torch.Tensor, places: torch.Tensor, ids: torch.Tensor, offsets: Optional[torch.Tensor], mode: str,
            per_sample_weights: Optional[torch.Tensor], padding: Optional[int]) -> torch.Tensor:
    """The bags of rows. The padding's place among the distinct rows stands for its id."""
    if leaf.shape[0] == 0:  # no ids: torch takes no empty table
        bags = ids.shape[0] if offsets is None else offsets.numel()
        return leaf.sum(0).expand(bags, leaf.shape[1])
    where = None
    if padding is not None:
        found = places.reshape(-1)[(ids.detach().cpu() == padding).reshape(-1)]
        where = int(found[0]) if found.numel() > 0 else None
    return torch.nn.functional.embedding_bag(places, leaf, offsets, mode=mode, per_sample_weights=per_sample_weights, padding_idx=where)


class EmbeddingBagCollection(torch.nn.Module):
    """Several bags of one width that are one table, so that the rows of all features are one message for each server.

    `features`: the number of rows by feature's name. forward() takes the (ids, offsets) of each feature by name, or anything
    with keys(), values(), offsets() as TorchRec's KeyedJaggedTensor has them, and returns {bags, embedding_dim} by name.
    """

    def __init__(self, features: Mapping[str, int], embedding_dim: int, name: str, mode: str = "sum", optimizer: Optional[Optimizer] = None,
                 init: Optional[RowInit] = None, store: str = "dist_sync", backward_passes_per_step: int = 1) -> None:
        super().__init__()
        if not features:
            raise InvalidArgument("there is no feature; a collection has at least one")
        if mode not in ("sum", "mean"):
            raise InvalidArgument(f"mode is {mode!r}; it is 'sum' or 'mean'")
        self.mode, self.features = mode, dict(features)
        self._first: dict[str, int] = {}
        rows = 0
        for feature, count in self.features.items():
            if count < 1:
                raise InvalidArgument(f"feature {feature!r} has {count} rows; it has at least 1")
            self._first[feature] = rows
            rows += count
        self.table = Table(rows, embedding_dim, name, optimizer, init, store, backward_passes_per_step)

    def global_ids(self, batch: Any) -> torch.Tensor:
        """Returns the ids of a batch as rows of the table, in the order of its features: what table.prefetch() takes."""
        return torch.cat([ids for _, ids, _ in self._parts(batch)])

    def forward(self, batch: Any) -> dict[str, torch.Tensor]:
        parts = self._parts(batch)
        leaf, places = self.table._rows(torch.cat([ids for _, ids, _ in parts]))
        bags, begin = {}, 0
        for feature, ids, offsets in parts:
            end = begin + ids.numel()
            bags[feature] = _bagged(leaf, places[begin:end], ids, offsets, self.mode, None, None)
            begin = end
        return bags

    def _parts(self, batch: Any) -> list[tuple[str, torch.Tensor, torch.Tensor]]:
        """(feature, its ids as rows of the table, its offsets) for each feature of a batch."""
        named = batch if isinstance(batch, Mapping) else _unpacked(batch)
        parts = []
        for feature, (ids, offsets) in named.items():
            if feature not in self.features:
                raise InvalidArgument(f"the batch has feature {feature!r}; the collection has {', '.join(self.features)}")
            ids = self.table._checked(ids).reshape(-1)
            if ids.numel() > 0 and not (0 <= int(ids.min()) and int(ids.max()) < self.features[feature]):
                raise InvalidArgument(f"feature {feature!r} has ids from {int(ids.min())} to {int(ids.max())}; it has "
                                      f"{self.features[feature]} rows, from 0")
            parts.append((feature, ids + self._first[feature], offsets.detach().cpu().reshape(-1)))
        if not parts:
            raise InvalidArgument("the batch has no feature")
        return parts


def _unpacked(batch: Any) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """The features of a jagged tensor: keys(), values() of all features one after the other, and offsets() of every bag of every
    feature, with the end of the last."""
    try:
        keys, values, offsets = list(batch.keys()), batch.values(), batch.offsets()
    except (AttributeError, TypeError):
        raise InvalidArgument(f"the batch is a {type(batch).__name__}; it is a dict of (ids, offsets) by feature, or has keys(), values() and "
                              "offsets()") from None
    bags = (offsets.numel() - 1) // len(keys) if keys else 0
    found = {}
    for place, key in enumerate(keys):
        own = offsets[place * bags:(place + 1) * bags + 1]
        found[key] = (values[int(own[0]):int(own[-1])], own[:-1] - own[0])
    return found
